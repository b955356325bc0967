package main

// The cosignatures that a log records: docs/spec/entry.md, Recorded cosignatures.

import (
	"bytes"
	"fmt"
)

// recordedLine is the line of a cosignature, and the entry that records it.
type recordedLine struct {
	line  string
	index int64
	entry *entry
}

func readWitnessRecords(b *bundle, tree checkpoint) map[treeID][]recordedLine {
	records := map[treeID][]recordedLine{}
	for _, index := range b.entries {
		data, proof := b.entry(index)
		if !bytes.Contains(data, []byte(`"witnessed/1"`)) || !isProven(data, proof, index, tree) {
			continue
		}
		var e *entry
		// What is wrong with it is reported when the entry is checked.
		if attempt(func() { e = readEntry(data) }) != nil || e.log != b.origin || e.run != "log" {
			continue
		}
		if e.strand != "witnessed" || e.kind != "witnessed/1" || !e.facts.has("cosignatures") {
			continue
		}
		place := treeID{e.count("size", 0), e.text("root")}
		for _, line := range e.facts.get("cosignatures").([]any) {
			records[place] = append(records[place], recordedLine{asText(line), index, e})
		}
	}
	return records
}

// restored returns the cosignatures that the log recorded and that are not below the note.
func (v *verifier) restored(records map[treeID][]recordedLine, c checkpoint, n note) []cosignature {
	var found []cosignature
	if v.trust.policy == nil {
		return nil
	}
	seen, named, witnessed := map[signature]bool{}, map[[2]string]bool{}, map[key]bool{}
	// Whoever may write to the log can have lines of others recorded, as many as he likes.
	witnesses := v.trust.policy.keysByClaim()
	for _, s := range n.signatures {
		seen[s], named[[2]string{s.name, s.keyID}] = true, true
	}
	for _, r := range records[treeID{c.size, hexOf(c.root)}] {
		var s signature
		if attempt(func() { s = readSignature(r.line) }) != nil || seen[s] {
			continue
		}
		k, known := witnesses[[2]string{s.name, s.keyID}]
		if !known || witnessed[k] {
			continue
		}
		witnessed[k] = true
		var held cosignature
		if attempt(func() { held = readCosignature(n.text, keyedSignature{k, s.blob}) }) != nil {
			v.findings.add("signature-rejected", fmt.Sprintf("the recorded cosignature of %s does not hold", s.name), r.index, r.entry)
			continue
		}
		found = append(found, held)
		// A witness that was asked twice has two cosignatures, and the note one of them.
		if !named[[2]string{s.name, s.keyID}] {
			v.findings.add("cosignature-missing", fmt.Sprintf("the checkpoint of size %d lacks the cosignature of %s that the log recorded", c.size, s.name), r.index, r.entry)
		}
	}
	return found
}
