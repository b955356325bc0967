package main

// Keys and signed notes (C2SP signed-note), checkpoints and cosignatures, and the reader's trust file
// (C2SP tlog-policy with our line "independent NAME").

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

const (
	logKey        = 0x01
	witnessKey    = 0x04
	maxNote       = 1 << 20
	maxSignatures = 64
	// A pack encloses a trust file that anybody can have written; the bounds are the same here.
	maxPolicy      = 1 << 20
	maxPolicyLines = 1000
)

// key is a public key with its name and the type of signature that it is trusted for.
type key struct {
	name      string
	algorithm byte
	public    string
}

// id has four bytes, by which a key is looked up.  They can be forged, so they prove nothing.
func (k key) id() string {
	digest := sha256.Sum256([]byte(k.name + "\n" + string(k.algorithm) + k.public))
	return hex.EncodeToString(digest[:4])
}

func checkLine(text string) {
	formed := utf8.ValidString(text)
	for _, c := range text {
		formed = formed && c >= 0x20
	}
	require(formed, "contains a control character")
}

// isSpace says what Python calls white space.
func isSpace(c rune) bool {
	return c >= 0x09 && c <= 0x0d || c >= 0x1c && c <= 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
		c >= 0x2000 && c <= 0x200a || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000
}

func checkName(name string) {
	checkLine(name)
	formed := name != "" && !strings.Contains(name, "+") && strings.IndexFunc(name, isSpace) < 0
	require(formed, "%q is not a valid key name", name)
}

func readKey(text string) key {
	parts := strings.SplitN(text, "+", 3)
	require(len(parts) == 3, "%q does not have the form name+id+key", text)
	material := readBase64(parts[2])
	checkName(parts[0])
	typed := len(material) > 0 && (material[0] == logKey || material[0] == witnessKey)
	require(typed, "%s: unsupported signature type", parts[0])
	k := key{parts[0], material[0], string(material[1:])}
	checkPublicKey(material[1:])
	require(k.id() == parts[1], "%s: the id of this key is %s", k.name, k.id())
	return k
}

type signature struct{ name, keyID, blob string }

type note struct {
	text       string
	signatures []signature
}

func readNote(data []byte) note {
	require(len(data) <= maxNote, "a note is longer than 1 MiB")
	all := readUTF8(data)
	cut := strings.LastIndex(all, "\n\n")
	lines := strings.Split(all[cut+1:], "\n")
	formed := cut >= 0 && lines[len(lines)-1] == "" && len(lines) >= 3 && len(lines)-2 <= maxSignatures
	require(formed, "a note needs 1 to %d signatures below an empty line", maxSignatures)
	checkLine(strings.ReplaceAll(all[:cut], "\n", ""))
	n := note{text: all[:cut] + "\n"}
	for _, line := range lines[1 : len(lines)-1] {
		n.signatures = append(n.signatures, readSignature(line))
	}
	return n
}

func readSignature(line string) signature {
	words := strings.Split(line, " ")
	require(len(words) == 3, "malformed signature line")
	raw := readBase64(words[2])
	require(words[0] == "\u2014" && len(raw) > 4, "malformed signature line")
	checkName(words[1])
	return signature{words[1], hex.EncodeToString(raw[:4]), string(raw[4:])}
}

type keyedSignature struct {
	key  key
	blob string
}

// signaturesBy returns the first signature that names each of these keys; it is not verified here.
// Whoever has a key can make as many valid signatures of one text as fit into a note.
func (n note) signaturesBy(keys []key) []keyedSignature {
	var all []keyedSignature
	seen := map[key]bool{}
	for _, s := range n.signatures {
		for _, k := range keys {
			if s.name == k.name && s.keyID == k.id() && !seen[k] {
				seen[k] = true
				all = append(all, keyedSignature{k, s.blob})
			}
		}
	}
	return all
}

// hasSigned says whether the first signature that names a key holds.
func (n note) hasSigned(k key) bool {
	for _, s := range n.signaturesBy([]key{k}) {
		return signatureHolds([]byte(k.public), []byte(n.text), []byte(s.blob))
	}
	return false
}

func readCheckpoint(text string) checkpoint {
	lines := strings.Split(text, "\n")
	require(len(lines) == 4 && lines[0] != "", "a checkpoint must have three lines")
	c := checkpoint{lines[0], readDecimal(lines[1]), readHash(lines[2])}
	require(c.size != 0 || c.root == emptyRoot, "wrong root of the empty tree")
	return c
}

// openCheckpoint returns a checkpoint that a trusted key of its own log has signed.
func openCheckpoint(data []byte, keys []key) checkpoint {
	n := readNote(data)
	signers := map[string]bool{}
	for _, s := range n.signaturesBy(keys) {
		if s.key.algorithm != logKey {
			continue
		}
		// An invalid one by a trusted key rejects the note, because the note was altered.
		holds := signatureHolds([]byte(s.key.public), []byte(n.text), []byte(s.blob))
		require(holds, "%s: invalid signature", s.key.name)
		signers[s.key.name] = true
	}
	c := readCheckpoint(n.text)
	require(signers[c.origin], "not signed by a trusted key of its log")
	return c
}

// cosignature is a witness, and the time in seconds since 1970 at which it cosigned.
type cosignature struct {
	key  key
	time uint64
}

func readCosignatures(data []byte, witnesses []key) []cosignature {
	n := readNote(data)
	var all []cosignature
	for _, s := range n.signaturesBy(witnesses) {
		all = append(all, readCosignature(n.text, s))
	}
	return all
}

func readCosignature(text string, s keyedSignature) cosignature {
	blob := []byte(s.blob)
	require(len(blob) == 72, "%s: invalid cosignature", s.key.name)
	time := binary.BigEndian.Uint64(blob)
	message := fmt.Sprintf("cosignature/v1\ntime %d\n%s", time, text)
	holds := time < 1<<63 && signatureHolds([]byte(s.key.public), []byte(message), blob[8:])
	require(holds, "%s: invalid cosignature", s.key.name)
	return cosignature{s.key, time}
}

// ---- The trust file.

type group struct {
	name    string
	least   int
	members []string
}

type policy struct {
	logs        []key
	names       []string // of the witnesses, in their order
	witnesses   map[string]key
	groups      []group
	quorums     []string
	independent []string
}

func readPolicy(data []byte) *policy {
	p := &policy{witnesses: map[string]key{}}
	for _, c := range data {
		control := c < 0x20 && c != '\n' && c != '\t' || c == 0x7f
		require(!control, "the trust file contains a control character")
	}
	require(len(data) > 0 && data[len(data)-1] == '\n', "the trust file does not end in a newline")
	require(len(data) <= maxPolicy, "the trust file is longer than %d bytes", maxPolicy)
	count := 0
	for _, line := range strings.Split(string(data), "\n") {
		words := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' })
		if len(words) > 0 && !strings.HasPrefix(words[0], "#") {
			count++
			require(count <= maxPolicyLines, "the trust file has more than %d lines", maxPolicyLines)
			p.read(words)
		}
	}
	require(len(p.quorums) == 1, "the trust file has %d quorum lines", len(p.quorums))
	p.check()
	return p
}

func (p *policy) check() {
	// A key with two names, or a member of two groups, would count twice.
	logs, seen := map[string]bool{}, map[string]bool{}
	for _, k := range p.logs {
		require(!logs[k.public], "a key is listed twice")
		logs[k.public] = true
	}
	for _, k := range p.witnesses {
		require(!seen[k.public], "a key is listed twice")
		seen[k.public] = true
	}
	marked, members := map[string]bool{}, map[string]bool{}
	for _, name := range p.independent {
		require(!marked[name], "a witness is marked twice")
		marked[name] = true
		require(!logs[p.witnesses[name].public], "%s has the key of the log", p.witnesses[name].name)
	}
	for _, g := range p.groups {
		for _, member := range g.members {
			require(!members[member], "a group member is listed twice")
			members[member] = true
		}
	}
}

func (p *policy) isDefined(name string) bool {
	_, defined := p.witnesses[name]
	for _, g := range p.groups {
		defined = defined || g.name == name
	}
	return defined
}

func (p *policy) read(words []string) {
	count := len(words)
	isFree := func() bool { return words[1] != "none" && !p.isDefined(words[1]) }
	switch {
	case words[0] == "log" && (count == 2 || count == 3):
		p.logs = append(p.logs, readKeyOf(words[1], logKey))
	case words[0] == "witness" && (count == 3 || count == 4) && isFree():
		p.witnesses[words[1]] = readKeyOf(words[2], witnessKey)
		p.names = append(p.names, words[1])
	case words[0] == "group" && count > 3 && isFree():
		p.addGroup(words[1], words[2], words[3:])
	case words[0] == "quorum" && count == 2 && (words[1] == "none" || p.isDefined(words[1])):
		p.quorums = append(p.quorums, words[1])
	case words[0] == "independent" && count == 2 && p.witnesses[words[1]].name != "":
		// Whoever chose this name says that the witness is on the machine of its log.
		name := p.witnesses[words[1]].name
		require(!isLocalWitness(name), "%s is on the machine of its log", name)
		p.independent = append(p.independent, words[1])
	default:
		reject("invalid line, or a name that is taken or undefined: %q", strings.Join(words, " "))
	}
}

func readKeyOf(text string, algorithm byte) key {
	k := readKey(text)
	require(k.algorithm == algorithm, "%s: wrong signature type for this line", k.name)
	return k
}

func (p *policy) addGroup(name, least string, members []string) {
	number := map[string]int64{"any": 1, "all": int64(len(members))}[least]
	if number == 0 {
		number = readDecimal(least)
	}
	require(number >= 1 && number <= int64(len(members)), "invalid threshold %s of group %s", least, name)
	for _, member := range members {
		require(p.isDefined(member), "a member of group %s is not defined above it", name)
	}
	p.groups = append(p.groups, group{name, int(number), members})
}

func (p *policy) witnessKeys() []key {
	var keys []key
	for _, name := range p.names {
		keys = append(keys, p.witnesses[name])
	}
	return keys
}

// keysByClaim returns the keys of witnesses by what their lines have behind the dash: the name, and the
// first characters of the id.
func (p *policy) keysByClaim() map[string]key {
	keys := map[string]key{}
	for _, k := range p.witnessKeys() {
		id, _ := hex.DecodeString(k.id())
		keys[k.name+" "+base64.StdEncoding.EncodeToString(id)[:5]] = k
	}
	return keys
}

// isSatisfiedBy says whether these cosignatures reach the quorum; there must be at least one.
func (p *policy) isSatisfiedBy(cosignatures []cosignature) bool {
	names := map[string]bool{"none": true}
	for name, k := range p.witnesses {
		for _, c := range cosignatures {
			if c.key == k {
				names[name] = true
			}
		}
	}
	for _, g := range p.groups {
		count := 0
		for _, member := range g.members {
			if names[member] {
				count++
			}
		}
		if count >= g.least {
			names[g.name] = true
		}
	}
	return len(cosignatures) > 0 && names[p.quorums[0]]
}

// isIndependent says whether the reader marks a witness as run by another organization.
func (p *policy) isIndependent(k key, named []key) bool {
	origins := map[string]bool{}
	for _, log := range append(append([]key{}, named...), p.logs...) {
		origins[log.name] = true
		if log.public == k.public {
			return false
		}
	}
	for _, name := range p.independent {
		if len(origins) <= 1 && p.witnesses[name] == k {
			return true
		}
	}
	return false
}

// quorumTime returns the earliest time by which the quorum had cosigned; 0 if it is unknown.
func (p *policy) quorumTime(cosignatures []cosignature) uint64 {
	var timed []cosignature
	for _, c := range cosignatures {
		if c.time != 0 {
			timed = append(timed, c)
		}
	}
	sort.SliceStable(timed, func(i, j int) bool { return timed[i].time < timed[j].time })
	for i := range timed {
		if p.isSatisfiedBy(timed[:i+1]) {
			return timed[i].time
		}
	}
	return 0
}

// minWitnesses returns the smallest number of witnesses that can reach the quorum, at least one.
func (p *policy) minWitnesses() int {
	needed := map[string]int{}
	for name := range p.witnesses {
		needed[name] = 1
	}
	for _, g := range p.groups {
		var counts []int
		for _, member := range g.members {
			counts = append(counts, needed[member])
		}
		sort.Ints(counts)
		for _, count := range counts[:g.least] {
			needed[g.name] += count
		}
	}
	if count, ok := needed[p.quorums[0]]; ok {
		return count
	}
	return 1
}

func isLocalWitness(name string) bool {
	// The lower case of Go makes ASCII of U+0130, which the other verifiers do not.
	lower := strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, name)
	return strings.HasPrefix(lower, "forum.local/witness/")
}
