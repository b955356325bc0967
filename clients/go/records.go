package main

// The cosignatures that a log records: docs/spec/entry.md, Recorded cosignatures.

import (
	"bytes"
	"fmt"
)

// recordedLine is the line of a witness, unverified, and the entry that records it.
type recordedLine struct {
	key       key
	signature signature
	index     int64
	entry     *entry
}

const (
	dash = "\u2014 "
	// A cosignature and its id have 104 characters in a line; five are compared before it is parsed.
	claimEnd = 99
)

func readWitnessRecords(b *bundle, tree checkpoint, p *policy) map[treeID][]recordedLine {
	records := map[treeID][]recordedLine{}
	if p == nil {
		return records
	}
	witnesses := p.keysByClaim()
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
		for _, value := range e.facts.get("cosignatures").([]any) {
			line := asText(value)
			if len(line) < len(dash)+claimEnd {
				continue
			}
			// Whoever may write to the log can have lines of others recorded, as many as he likes.
			k, known := witnesses[line[len(dash):len(line)-claimEnd]]
			var s signature
			if !known || attempt(func() { s = readSignature(line) }) != nil {
				continue
			}
			if s.name == k.name && s.keyID == k.id() {
				records[place] = append(records[place], recordedLine{k, s, index, e})
			}
		}
	}
	return records
}

// restored returns the cosignatures that the log recorded and that are not below the note.
func (v *verifier) restored(records map[treeID][]recordedLine, c checkpoint, n note) []cosignature {
	var found []cosignature
	seen, named, witnessed := map[signature]bool{}, map[[2]string]bool{}, map[key]bool{}
	for _, s := range n.signatures {
		seen[s], named[[2]string{s.name, s.keyID}] = true, true
	}
	for _, r := range records[treeID{c.size, hexOf(c.root)}] {
		s := r.signature
		if seen[s] || witnessed[r.key] {
			continue
		}
		witnessed[r.key] = true
		var held cosignature
		if attempt(func() { held = readCosignature(n.text, keyedSignature{r.key, s.blob}) }) != nil {
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
