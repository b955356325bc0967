package main

// The bundle: docs/spec/bundle.md.

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

const (
	maxFiles = 0xffff
	maxBytes = 0xffffffff
	// More would only cost time: an honest bundle has one hand-over in a year, and a note for each.
	maxRotations = 64
	maxPast      = maxRotations + 5
)

type member struct {
	start, size int
	crc         uint32
	digest      string
}

// archive is a zip archive in canonical form: files stored without compression, sorted, undated.
type archive struct {
	data    []byte
	names   []string
	members map[string]member
	wide    bool
}

func readArchive(data []byte) *archive {
	a := &archive{data: data, members: map[string]member{}}
	at, before := 0, ""
	for bytes.HasPrefix(data[at:], []byte("PK\x03\x04")) && at+30 <= len(data) {
		size := int(binary.LittleEndian.Uint32(data[at+18:]))
		length := int(binary.LittleEndian.Uint16(data[at+26:]))
		start := at + 30 + length
		require(start+size <= len(data), "altered: its bytes are not those that were packed")
		name := readUTF8(data[at+30 : start])
		require(len(a.names) == 0 || name > before, "re-zipped: ask for the file as Forum wrote it")
		content := data[start : start+size]
		digest := sha256.Sum256(content)
		m := member{start, size, crc32.ChecksumIEEE(content), hex.EncodeToString(digest[:])}
		header := append([]byte("PK\x03\x04"), a.common(20, name, m)...)
		header = binary.LittleEndian.AppendUint16(header, 0)
		require(bytes.Equal(header, data[at:at+30]), "altered: its bytes are not those that were packed")
		a.names, a.members[name] = append(a.names, name), m
		at, before = start+size, name
	}
	total := 22
	for name, m := range a.members {
		total += 76 + 2*len(name) + m.size
	}
	a.wide = len(a.names) > maxFiles || total > maxBytes
	require(bytes.Equal(data[at:], a.directory(at)), "altered: its bytes are not those that were packed, or it is no bundle")
	return a
}

func (a *archive) common(version uint16, name string, m member) []byte {
	var out []byte
	for _, field := range []uint16{version, 1 << 11, 0, 0, 33} {
		out = binary.LittleEndian.AppendUint16(out, field)
	}
	for _, field := range []uint32{m.crc, uint32(m.size), uint32(m.size)} {
		out = binary.LittleEndian.AppendUint32(out, field)
	}
	return binary.LittleEndian.AppendUint16(out, uint16(len(name)))
}

// directory returns the central directory and the end records that these files must have.
func (a *archive) directory(start int) []byte {
	var out []byte
	le := binary.LittleEndian
	for _, name := range a.names {
		m := a.members[name]
		offset, version, extra := m.start-30-len(name), uint16(20), []byte(nil)
		if offset >= maxBytes {
			version, extra = 45, le.AppendUint64([]byte{1, 0, 8, 0}, uint64(offset))
			offset = maxBytes
		}
		out = le.AppendUint16(append(out, "PK\x01\x02"...), version)
		out = le.AppendUint16(append(out, a.common(version, name, m)...), uint16(len(extra)))
		out = append(out, make([]byte, 10)...)
		out = le.AppendUint32(out, uint32(offset))
		out = append(append(out, name...), extra...)
	}
	count, size := len(a.names), len(out)
	if a.wide {
		out = le.AppendUint64(append(out, "PK\x06\x06"...), 44)
		out = append(out, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		for _, field := range []int{count, count, size, start} {
			out = le.AppendUint64(out, uint64(field))
		}
		out = append(out, "PK\x06\x07\x00\x00\x00\x00"...)
		out = le.AppendUint64(out, uint64(start+size))
		out = le.AppendUint32(out, 1)
	}
	out = append(out, "PK\x05\x06\x00\x00\x00\x00"...)
	for range []int{0, 1} {
		out = le.AppendUint16(out, uint16(least(int64(count), 0xffff)))
	}
	out = le.AppendUint32(out, uint32(least(int64(size), maxBytes)))
	out = le.AppendUint32(out, uint32(least(int64(start), maxBytes)))
	return append(out, 0, 0)
}

func least(n, most int64) int64 {
	if n < most {
		return n
	}
	return most
}

func (a *archive) has(name string) bool { _, ok := a.members[name]; return ok }

func (a *archive) read(name string) []byte {
	m, ok := a.members[name]
	require(ok, "%s is missing", name)
	return a.data[m.start : m.start+m.size]
}

func isPack(data []byte) bool {
	is := false
	_ = attempt(func() { is = readArchive(data).has("log/end.note") })
	return is
}

// ---- The files of a bundle.

type proof struct {
	at    int64
	nodes []hash
	note  []byte
}

type pastCheckpoint struct {
	note  []byte
	nodes []hash
}

type bodyPlace struct {
	index int64
	name  string
}

// bundle is well-formed and not yet verified.
type bundle struct {
	archive     *archive
	origin, run string
	checkpoint  []byte
	entries     []int64
	bodyOrder   []bodyPlace
	bodies      map[bodyPlace]bool
	past        []pastCheckpoint
	version     int
	shared      *sharedBodies
}

var (
	entryFile = regexp.MustCompile(`^entries/([0-9]{16})\.json$`).FindStringSubmatch
	bodyFile  = regexp.MustCompile(`^bodies/([0-9]{16})/([a-z][a-z0-9._-]{0,31})$`).FindStringSubmatch
	listFile  = regexp.MustCompile(`^spans/([0-9]{16})/([a-z][a-z0-9._-]{0,31})$`).FindStringSubmatch
	pieceFile = regexp.MustCompile(`^pieces/[0-9]{16}$`).MatchString
	pastFile  = regexp.MustCompile(`^past/([0-9]{16})\.note$`).FindStringSubmatch
	extraFile = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString
)

func readIndex(digits string) int64 {
	index, _ := strconv.ParseInt(digits, 10, 64)
	return index
}

func readBundle(data []byte, mostBytes int64) *bundle {
	b := &bundle{archive: readArchive(data), bodies: map[bodyPlace]bool{}}
	b.readManifest()
	b.checkpoint = b.archive.read("checkpoint")
	expected := map[string]bool{"checkpoint": true, "manifest.json": true}
	past, pieces, lists := []string{}, []string{}, []bodyPlace{}
	for _, name := range b.archive.names {
		if found := entryFile(name); found != nil {
			b.entries = append(b.entries, readIndex(found[1]))
			expected[name], expected[b.proofFile(found[1])] = true, true
		} else if found := bodyFile(name); found != nil {
			b.takeBody(bodyPlace{readIndex(found[1]), found[2]})
			expected[name], expected["salts/"+name[7:]] = true, true
		} else if found := listFile(name); found != nil && b.version == 3 {
			place := bodyPlace{readIndex(found[1]), found[2]}
			b.takeBody(place)
			lists = append(lists, place)
			expected[name], expected["salts/"+name[6:]] = true, true
		} else if pieceFile(name) && b.version == 3 {
			// They are numbered without a gap.
			expected[name], expected[fmt.Sprintf("pieces/%016d", len(pieces))] = true, true
			pieces = append(pieces, name)
		} else if found := pastFile(name); found != nil {
			past = append(past, found[1])
			expected[name], expected["past/"+found[1]+".consistency"] = true, true
		}
	}
	sortPlaces(b.bodyOrder)
	require(len(past) <= maxPast, "%d earlier checkpoints; at most %d are read", len(past), maxPast)
	for _, size := range past {
		b.past = append(b.past, readPast(b.archive, size))
	}
	for name := range expected {
		require(b.archive.has(name), "%s is missing", name)
	}
	for _, name := range b.archive.names {
		// Other files are enclosed for convenience and are not evidence.
		require(expected[name] || extraFile(name), "a file with an unknown name")
	}
	if b.version == 3 {
		b.readLists(lists, pieces, mostBytes)
	}
	return b
}

func (b *bundle) takeBody(place bodyPlace) {
	require(!b.bodies[place], "body '%s' of entry %d is there twice", place.name, place.index)
	b.bodyOrder, b.bodies[place] = append(b.bodyOrder, place), true
}

func (b *bundle) proofFile(digits string) string {
	if b.version == 3 {
		return "proofs/" + digits + ".inclusion"
	}
	return "proofs/" + digits + ".tlog-proof"
}

// readManifest takes origin and run from the manifest, which must list exactly the other files.
func (b *bundle) readManifest() {
	data := b.archive.read("manifest.json")
	manifest, ok := readJSON(data).(*object)
	require(ok, "the manifest has no origin or no run")
	origin, isOrigin := manifest.get("origin").(string)
	run, isRun := manifest.get("run").(string)
	require(isOrigin && isRun, "the manifest has no origin or no run")
	require(isLabel(origin) && isLabel(run), "the origin or the run in the manifest is no label")
	var files []string
	for _, name := range b.archive.names {
		if m := b.archive.members[name]; name != "manifest.json" {
			files = append(files, fmt.Sprintf(`[%s,%d,"%s"]`, writeString(name), m.size, m.digest))
		}
	}
	b.version = 1
	if manifest.get("v") == "forum/bundle/3" {
		b.version = 3 // in an archive of either form
	} else if b.archive.wide {
		b.version = 2
	}
	expected := fmt.Sprintf(`{"v":"forum/bundle/%d","origin":%s,"run":%s,"files":[%s]}`,
		b.version, writeString(origin), writeString(run), strings.Join(files, ","))
	require(expected == string(data), "the files are not those that the manifest lists")
	b.origin, b.run = origin, run
}

func readPast(a *archive, digits string) pastCheckpoint {
	note, nodes := a.read("past/"+digits+".note"), readHashLines(a.read("past/"+digits+".consistency"))
	same := readCheckpoint(readNote(note).text).size == readIndex(digits)
	require(same, "an earlier checkpoint has another size than its file name")
	return pastCheckpoint{note, nodes}
}

func readHashLines(data []byte) []hash {
	lines := strings.Split(readUTF8(data), "\n")
	require(lines[len(lines)-1] == "", "a proof ends within a line")
	return readHashes(lines[:len(lines)-1])
}

func readHashes(lines []string) []hash {
	var nodes []hash
	for _, line := range lines {
		nodes = append(nodes, readHash(line))
	}
	return nodes
}

// entry returns an entry with its proof.
func (b *bundle) entry(index int64) ([]byte, proof) {
	data := b.archive.read(fmt.Sprintf("entries/%016d.json", index))
	file := b.archive.read(b.proofFile(fmt.Sprintf("%016d", index)))
	if b.version != 3 {
		return data, readProof(file)
	}
	nodes := readHashLines(file)
	require(len(nodes) <= 63, "the proof file has more than 63 hashes")
	return data, proof{index, nodes, b.checkpoint}
}

// readProof parses a proof file.  No signature covers the optional extra line, which is ignored.
func readProof(data []byte) proof {
	head, note, _ := bytes.Cut(data, []byte("\n\n"))
	lines := strings.Split(readUTF8(head), "\n")
	require(lines[0] == "c2sp.org/tlog-proof@v1", "not a proof file")
	lines = lines[1:]
	if len(lines) > 0 && strings.HasPrefix(lines[0], "extra ") {
		readBase64(lines[0][6:])
		lines = lines[1:]
	}
	require(len(lines) > 0 && strings.HasPrefix(lines[0], "index "), "the proof file has no index")
	require(len(lines) <= 64, "the proof file has more than 63 hashes")
	readNote(note)
	return proof{readDecimal(lines[0][6:]), readHashes(lines[1:]), note}
}

// body returns a body as a whole; one in spans is bounded.
func (b *bundle) body(place bodyPlace) []byte {
	if b.shared != nil && b.shared.lists[place] != nil {
		return b.shared.join(b.shared.lists[place])
	}
	return b.archive.read(fmt.Sprintf("bodies/%016d/%s", place.index, place.name))
}

func (b *bundle) hasMatchingBody(place bodyPlace, c commitment) bool {
	salt := b.archive.read(fmt.Sprintf("salts/%016d/%s", place.index, place.name))
	var listed *spanList
	if b.shared != nil {
		listed = b.shared.lists[place]
	}
	size, content := int64(0), []byte(nil)
	if listed != nil {
		size = listed.size
	} else {
		content = b.body(place)
		size = int64(len(content))
	}
	if len(salt) != 32 || size != c.size {
		return false
	}
	digest := sha256.New()
	digest.Write(append([]byte("forum/body/1\x00"), salt...))
	digest.Write(binary.BigEndian.AppendUint64(nil, uint64(size)))
	if listed != nil {
		b.shared.writeTo(digest, listed)
	} else {
		digest.Write(content)
	}
	return hex.EncodeToString(digest.Sum(nil)) == c.h
}

func sortedKeys[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
