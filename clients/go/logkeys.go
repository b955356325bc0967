package main

// The keys of a log: docs/spec/entry.md, Keys of a log.

import (
	"bytes"
	"fmt"
	"sort"
)

// rotation is recorded by an entry of the strand keys; facts is nil in an entry of release 0.2,
// which neither key has signed.
type rotation struct {
	at       int64
	old, new key
	facts    *object
}

// keysHaveSigned says whether both keys have signed the statement of an entry.
func keysHaveSigned(kind, origin string, facts *object, first, second string) bool {
	message := fmt.Sprintf("forum/%s\n%s\n%d\n%s\n%s\n", kind, origin, countOf(facts, "since", 0), first, second)
	holds := true
	err := attempt(func() {
		for name, text := range map[string]string{"signed": first, "proof": second} {
			blob := readBase64(asText(facts.get(name)))
			holds = holds && signatureHolds([]byte(readKey(text).public), []byte(message), blob)
		}
	})
	return err == nil && holds
}

// readRotation returns the rotation that an entry records, or nil if it records none of this log.
func readRotation(origin string, index int64, data []byte) *rotation {
	var found *rotation
	_ = attempt(func() { // a malformed entry is reported when it is checked
		e := readEntry(data)
		if e.kind != "key.rotate/1" && e.kind != "key.rotate/2" || e.run != "log" || e.strand != "keys" {
			return
		}
		r := &rotation{at: index, old: readKey(e.text("old")), new: readKey(e.text("vkey"))}
		for _, k := range []key{r.old, r.new} {
			require(k.name == origin && k.algorithm == logKey, "not a rotation of this log")
		}
		require(r.old != r.new && e.log == origin, "not a rotation of this log")
		require(index >= e.count("since", 0), "not a rotation at this index")
		if e.kind == "key.rotate/2" {
			r.facts = e.facts
		}
		found = r
	})
	return found
}

// signedTree is a checkpoint of the history; whether a key has signed it is asked only when it decides.
type signedTree struct {
	size int64
	note note
}

// logKeys are the keys of the log that follow from the reader's keys by rotations.
type logKeys struct {
	origin       string
	pinned       []key
	accepted     []key
	since, until map[key]int64
	followed     map[int64]bool
	retired      map[key]bool
	trees        []signedTree
	notices      []string
}

func hasKey(keys []key, k key) bool {
	for _, other := range keys {
		if other == k {
			return true
		}
	}
	return false
}

func uniqueKeys(keys []key) []key {
	var unique []key
	for _, k := range keys {
		if !hasKey(unique, k) {
			unique = append(unique, k)
		}
	}
	return unique
}

func newLogKeys(b *bundle, pinned []key) *logKeys {
	l := &logKeys{origin: b.origin, since: map[key]int64{}, until: map[key]int64{}, followed: map[int64]bool{}, retired: map[key]bool{}}
	for _, k := range pinned {
		if k.name == b.origin && k.algorithm == logKey {
			l.pinned = append(l.pinned, k)
		}
	}
	l.accepted = append([]key{}, l.pinned...)
	var tree checkpoint
	if len(l.pinned) == 0 || attempt(func() { tree = readCheckpoint(readNote(b.checkpoint).text) }) != nil {
		return l
	}
	rotations := provenRotations(b, tree)
	if len(rotations) > 0 {
		l.readTrees(b, tree)
		l.follow(rotations)
	}
	for _, r := range rotations {
		l.notices = append(l.notices, l.describe(r))
	}
	return l
}

// provenRotations returns the rotations of a bundle that are proven to be in the tree.
func provenRotations(b *bundle, tree checkpoint) []*rotation {
	var rotations []*rotation
	count := 0
	for _, index := range b.entries {
		data, proof := b.entry(index)
		if !bytes.Contains(data, []byte(`"key.rotate/`)) {
			continue
		}
		count++
		require(count <= maxRotations, "more than %d hand-overs of the log; at most %d are read", maxRotations, maxRotations)
		if !isProven(data, proof, index, tree) {
			continue // reported when the entry is checked
		}
		if r := readRotation(b.origin, index, data); r != nil {
			rotations = append(rotations, r)
		}
	}
	sort.SliceStable(rotations, func(i, j int) bool { return rotations[i].at < rotations[j].at })
	return rotations
}

// isProven says whether an entry is in the tree, which is checked before it costs more.
func isProven(data []byte, proof proof, index int64, tree checkpoint) bool {
	return proof.at == index && attempt(func() { checkInclusion(proof.nodes, hashLeaf(data), index, tree) }) == nil
}

// readTrees takes the checkpoint and the earlier ones that it continues, whoever signed them.
func (l *logKeys) readTrees(b *bundle, tree checkpoint) {
	n := readNote(b.checkpoint)
	l.trees = append(l.trees, signedTree{tree.size, n})
	for _, past := range b.past {
		_ = attempt(func() {
			n := readNote(past.note)
			old := readCheckpoint(n.text)
			checkConsistency(past.nodes, old, tree)
			l.trees = append(l.trees, signedTree{old.size, n})
		})
	}
}

// follow accepts the keys after the pinned ones in log order, then those before them in reverse.
func (l *logKeys) follow(rotations []*rotation) {
	for _, r := range rotations {
		if hasKey(l.accepted, r.old) && l.isSigned(r) {
			l.accept(r, r.old)
		}
	}
	for i := len(rotations) - 1; i >= 0; i-- {
		r := rotations[i]
		if !hasKey(l.accepted, r.new) {
			continue
		}
		if r.facts == nil && l.leadsBack(r) || r.facts != nil && (l.followed[r.at] || l.isSigned(r)) {
			l.accept(r, r.new)
		}
	}
}

func (l *logKeys) isSigned(r *rotation) bool {
	return r.facts != nil && keysHaveSigned("key.rotate/2", l.origin, r.facts, asText(r.facts.get("old")), asText(r.facts.get("vkey")))
}

// leadsBack says whether an unsigned rotation may lead from an accepted key to an earlier one.  Of two
// keys that the reader pins, the first is the newer: a writer must not turn them round.
func (l *logKeys) leadsBack(r *rotation) bool {
	place := func(k key) int {
		for i, pinned := range l.pinned {
			if pinned == k {
				return i
			}
		}
		return -1
	}
	old, new := place(r.old), place(r.new)
	return old < 0 || new >= 0 && new < old
}

// accept takes both keys of a rotation if a tree that the accepted one signed contains it.  The old
// key is valid only up to the first tree that the new key has signed.
func (l *logKeys) accept(r *rotation, signer key) {
	covered := false
	for _, t := range l.trees {
		covered = covered || t.size > r.at && l.hasSigned(signer, t)
	}
	if !covered {
		return
	}
	l.followed[r.at] = true
	l.retired[r.old] = true
	l.accepted = uniqueKeys(append(l.accepted, r.old, r.new))
	if r.facts != nil {
		l.since[r.new] = r.at + 1
	}
	until, bounded := l.until[r.old]
	for _, t := range l.trees {
		if t.size > r.at && (!bounded || t.size < until) && l.hasSigned(r.new, t) {
			until, bounded = t.size, true
		}
	}
	// A reader who pins the new key knows that it is in use: then the old one ends in any case.
	if !bounded && hasKey(l.pinned, r.new) {
		until, bounded = r.at, true
	}
	if bounded {
		l.until[r.old] = until
	}
}

// maySign says whether a key may sign a tree of this size.
func (l *logKeys) maySign(k key, size int64) bool {
	until, bounded := l.until[k]
	return hasKey(l.accepted, k) && l.since[k] <= size && (!bounded || size <= until)
}

func (l *logKeys) hasSigned(k key, t signedTree) bool {
	return l.maySign(k, t.size) && t.note.hasSigned(k)
}

// checkSigner refuses a checkpoint that is not signed by a key that was valid at its size.
func (l *logKeys) checkSigner(data []byte) {
	current := 0
	for _, k := range l.pinned {
		if !l.retired[k] {
			current++
		}
	}
	require(current <= 1, "you pin several keys of this log, and no hand-over between them is here; pin the newest one only; if this was exported before the hand-over, ask for a new export")
	if len(l.followed) == 0 {
		return
	}
	n := readNote(data)
	tree, allowed := signedTree{readCheckpoint(n.text).size, n}, false
	for _, k := range l.accepted {
		allowed = allowed || l.hasSigned(k, tree)
	}
	require(allowed, "signed by a key that was not valid at this size")
}

func (l *logKeys) describe(r *rotation) string {
	text := fmt.Sprintf("entry %d hands the log over from key %s to key %s", r.at, r.old.id(), r.new.id())
	if r.facts != nil {
		if l.followed[r.at] {
			return text + ": both have signed that"
		}
		return text + ": it was not followed, because a signature does not hold, or nothing leads to it"
	}
	text += " without their signatures, as release 0.2 wrote it: "
	if l.followed[r.at] {
		return text + "it was read back from the key that you pin"
	}
	return text + "it was not followed; ask the owner for the newest key, and pin that one"
}
