package main

// Bodies in spans: docs/spec/bundle.md.  Each list is checked before any body is put together, in
// time that grows with the lists as they are written: what a list keeps is never written out.

import (
	"fmt"
	"io"
	"sort"
)

const (
	maxBodyBytes   = 2 << 30
	bytesPerSpan   = 512
	maxListedBytes = 16 << 20
	maxListBytes   = 4 << 20
	maxChain       = 64
	maxSpans       = 1 << 16
)

// span is a range of a piece; end is where it ends in the body.
type span struct{ piece, offset, length, end int64 }

// spanList is the first kept spans of base, and then those that it adds.
type spanList struct {
	base        *spanList
	kept        int64
	added       []span
	depth       int
	size, count int64
}

// at returns a span of a body by its number.
func (l *spanList) at(number int64) span {
	for number < l.kept {
		l = l.base
	}
	return l.added[number-l.kept]
}

// each calls a function with the first spans of a list, in order.
func (l *spanList) each(count int64, take func(span)) {
	if count == 0 {
		return
	}
	if l.base != nil {
		l.base.each(least(count, l.kept), take)
	}
	for n := int64(0); n < count-l.kept; n++ {
		take(l.added[n])
	}
}

// sharedBodies are the bodies of a bundle that have a list, and the pieces that hold their bytes.
type sharedBodies struct {
	pieces [][]byte
	used   []int64
	begun  int64
	lists  map[bodyPlace]*spanList
	bytes  int64
	spans  int64
}

func newSharedBodies(pieces [][]byte) *sharedBodies {
	for _, piece := range pieces {
		require(len(piece) <= maxListedBytes, "a piece is too large")
	}
	return &sharedBodies{pieces: pieces, used: make([]int64, len(pieces)), lists: map[bodyPlace]*spanList{}}
}

const noSpans = "a list of spans is not in canonical form"

func readCount(value any) int64 {
	count, ok := asInteger(value)
	require(ok && count >= 0, noSpans)
	return count
}

func readRow(value any, length int) []any {
	row, ok := value.([]any)
	require(ok && len(row) == length, noSpans)
	return row
}

// add checks the list of a body, which may build on one that was added before.
func (s *sharedBodies) add(place bodyPlace, data []byte) {
	require(len(data) <= maxListBytes, "a list of spans is too long")
	value, ok := readJSON(data).(*object)
	require(ok && equalTexts(value.names, []string{"size", "base", "kept", "spans"}), noSpans)
	l := &spanList{size: readCount(value.get("size")), kept: readCount(value.get("kept")), depth: 1}
	require(0 < l.size && l.size <= maxListedBytes, "a body in spans is empty or too large")
	if base := value.get("base"); base != nil {
		row := readRow(base, 2)
		name, named := row[1].(string)
		require(named && isBodyName(name), noSpans)
		l.base = s.lists[bodyPlace{readCount(row[0]), name}]
		require(l.base != nil, "a list of spans refers to one that is not before it")
		l.depth += l.base.depth
		require(l.depth <= maxChain, "a chain of more than %d lists of spans", maxChain)
	}
	fits := l.kept == 0
	if l.base != nil {
		fits = 1 <= l.kept && l.kept <= l.base.count
	}
	require(fits, "a list of spans keeps other spans than its base has")
	spans, ok := value.get("spans").([]any)
	require(ok, noSpans)
	l.count = l.kept + int64(len(spans))
	require(l.count <= maxSpans, "a body has more than %d spans", maxSpans)
	s.take(l, spans)
	s.lists[place] = l
	s.bytes += l.size
	s.spans += l.count
}

// take checks the spans that a list adds to what it keeps.
func (s *sharedBodies) take(l *spanList, spans []any) {
	last := span{piece: -1}
	if l.base != nil {
		last = l.base.at(l.kept - 1)
	}
	l.added = make([]span, 0, len(spans))
	for _, value := range spans {
		row := readRow(value, 3)
		one := span{piece: readCount(row[0]), offset: readCount(row[1]), length: readCount(row[2])}
		// In this order no byte of a piece can be left out, and each list has one form.
		known := one.piece <= s.begun && one.piece < int64(len(s.pieces))
		require(known && one.offset <= s.used[one.piece], "a span out of order")
		stop := one.offset + one.length
		inside := one.length > 0 && stop <= int64(len(s.pieces[one.piece]))
		require(inside, "a span is empty or lies outside its piece")
		continues := last.piece == one.piece && last.offset+last.length == one.offset
		require(!continues, "two spans that continue each other")
		if one.piece == s.begun {
			s.begun++
		}
		if stop > s.used[one.piece] {
			s.used[one.piece] = stop
		}
		one.end = last.end + one.length
		l.added, last = append(l.added, one), one
	}
	require(last.end == l.size, "the spans of a body have another length than the body")
}

// finish refuses what no list uses, and more than the reader wants to have put together.
func (s *sharedBodies) finish(inline, most int64) {
	for number, piece := range s.pieces {
		require(s.used[number] == int64(len(piece)), "a piece has bytes that no body uses")
	}
	const together = "its bodies have %d %s together, and at most %d are read; the limit can be raised (--max-bytes)"
	require(s.bytes+inline <= most, together, s.bytes+inline, "bytes", most)
	require(s.spans <= most/bytesPerSpan, together, s.spans, "spans", most/bytesPerSpan)
}

// writeTo hashes a body span by span: it is never in memory as a whole.
func (s *sharedBodies) writeTo(digest io.Writer, l *spanList) {
	l.each(l.count, func(one span) {
		digest.Write(s.pieces[one.piece][one.offset : one.offset+one.length])
	})
}

func (s *sharedBodies) join(l *spanList) []byte {
	content := make([]byte, 0, l.size)
	l.each(l.count, func(one span) {
		content = append(content, s.pieces[one.piece][one.offset:one.offset+one.length]...)
	})
	return content
}

// readLists checks every list of a bundle before any body is put together.
func (b *bundle) readLists(places []bodyPlace, pieces []string, most int64) {
	contents := make([][]byte, len(pieces))
	for number, name := range pieces {
		contents[number] = b.archive.read(name)
	}
	b.shared = newSharedBodies(contents)
	for _, place := range places {
		b.shared.add(place, b.archive.read(fmt.Sprintf("spans/%016d/%s", place.index, place.name)))
	}
	inline := int64(0)
	for _, place := range b.bodyOrder {
		if b.shared.lists[place] == nil {
			inline += int64(len(b.body(place)))
		}
	}
	b.shared.finish(inline, most)
	readNote(b.checkpoint)
}

func sortPlaces(places []bodyPlace) {
	sort.Slice(places, func(i, j int) bool {
		if places[i].index != places[j].index {
			return places[i].index < places[j].index
		}
		return places[i].name < places[j].name
	})
}

// withoutSpans returns an entry without its bodies in spans, which are then not put together: a
// short list describes a long body, and whoever made up the entry must not have it hashed.
func (b *bundle) withoutSpans(index int64, e *entry) *entry {
	if b.shared == nil {
		return e
	}
	without := *e
	without.bodyNames, without.bodies = nil, map[string]commitment{}
	for _, name := range e.bodyNames {
		if b.shared.lists[bodyPlace{index, name}] == nil {
			without.bodyNames = append(without.bodyNames, name)
			without.bodies[name] = e.bodies[name]
		}
	}
	return &without
}
