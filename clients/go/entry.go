package main

// Entries: docs/spec/entry.md.

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

const (
	maxEntry   = 4096
	maxParents = 16
	maxNesting = 16
	maxCount   = 1<<53 - 1
)

var (
	isHash      = regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString
	isLabel     = regexp.MustCompile(`^[!#-\[\]-~]{1,128}$`).MatchString
	isMediaType = regexp.MustCompile(`^[!#-\[\]-~]{1,64}$`).MatchString
	isBodyName  = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,31}$`).MatchString
	isKind      = regexp.MustCompile(`^[a-z][a-z.]*/[1-9][0-9]*$`).MatchString
)

// Names are compared one by one: joined, an empty name would be as good as none.
var (
	members     = strings.Fields("v log run strand n prev step ts actor kind parents facts bodies")
	bodyMembers = []string{"h", "size", "type"}
)

type commitment struct {
	h    string
	size int64
}

func equalTexts(one, other []string) bool {
	equal := len(one) == len(other)
	for i := 0; equal && i < len(one); i++ {
		equal = one[i] == other[i]
	}
	return equal
}

// entry is one recorded step.
type entry struct {
	log, run, strand, prev, kind string
	n, ts                        int64
	parents                      []string
	facts                        *object
	bodyNames                    []string
	bodies                       map[string]commitment
}

func (e *entry) text(fact string) string { return asText(e.facts.get(fact)) }

// texts returns a fact that is a list of strings; none if it is left out.
func (e *entry) texts(fact string) []string {
	if !e.facts.has(fact) {
		return nil
	}
	var items []string
	for _, item := range e.facts.get(fact).([]any) {
		items = append(items, asText(item))
	}
	return items
}

// count returns a fact that is a count, or a default if it is left out.
func (e *entry) count(fact string, fallback int64) int64 { return countOf(e.facts, fact, fallback) }

func countOf(facts *object, name string, fallback int64) int64 {
	if facts == nil || !facts.has(name) {
		return fallback
	}
	value, _ := asCount(facts.get(name))
	return value
}

func asText(value any) string {
	text, _ := value.(string)
	return text
}

func asInteger(value any) (int64, bool) {
	written, ok := value.(number)
	parsed, err := strconv.ParseInt(string(written), 10, 64)
	return parsed, ok && err == nil && parsed >= -maxCount && parsed <= maxCount
}

func asCount(value any) (int64, bool) {
	parsed, ok := asInteger(value)
	return parsed, ok && parsed >= 0
}

// isPlain says whether a value consists of strings, exact integers, arrays and objects only.
func isPlain(value any, nesting int) bool {
	switch v := value.(type) {
	case string:
		return true
	case number:
		_, ok := asInteger(v)
		return ok
	case []any:
		for _, item := range v {
			if !isPlain(item, nesting+1) {
				return false
			}
		}
		return nesting <= maxNesting
	case *object:
		for _, item := range v.values {
			if !isPlain(item, nesting+1) {
				return false
			}
		}
		return nesting <= maxNesting
	}
	return false
}

// ---- The released kinds, in tables that are generated from the declared ones.

//go:embed kinds.txt
var kindTables string

// factForm is the type of a fact: text, count, limit or the values of an enumeration.
type factForm struct {
	name, item string
	choices    map[string]bool
	isArray    bool
	isOptional bool
	fallback   any
}

type kindForm struct {
	facts  []factForm
	bodies map[string]bool
}

var kinds = readKinds()

func readTable(table string) [][]string {
	var lines [][]string
	for _, line := range strings.Split(strings.TrimSpace(strings.ReplaceAll(table, "\n    ", " ")), "\n") {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

func readKinds() map[string]kindForm {
	choiceTable, kindTable, _ := strings.Cut(kindTables, "\n\n")
	choices := map[string]map[string]bool{}
	for _, words := range readTable(choiceTable) {
		choices[words[0]] = map[string]bool{}
		for _, word := range words[1:] {
			choices[words[0]][strings.Trim(word, `"`)] = true
		}
	}
	all := map[string]kindForm{}
	for _, words := range readTable(kindTable) {
		form := kindForm{bodies: map[string]bool{}}
		for _, word := range words[1:] {
			if strings.HasPrefix(word, "+") {
				form.bodies[word[1:]] = true
			} else {
				form.facts = append(form.facts, readFactForm(word, choices))
			}
		}
		all[words[0]] = form
	}
	return all
}

func readFactForm(word string, choices map[string]map[string]bool) factForm {
	name, rest, _ := strings.Cut(word, ":")
	typeName, fallback, isOptional := strings.Cut(rest, "=")
	form := factForm{name: name, item: strings.TrimSuffix(typeName, "[]"), isOptional: isOptional}
	form.isArray = form.item != typeName
	form.choices = choices[form.item]
	if isOptional {
		decoder := json.NewDecoder(strings.NewReader(fallback))
		decoder.UseNumber()
		if err := decoder.Decode(&form.fallback); err != nil {
			panic(err)
		}
	}
	return form
}

func (f factForm) hasType(value any) bool {
	if f.item == "count" || f.item == "limit" {
		_, ok := asCount(value)
		return ok
	}
	text, ok := value.(string)
	return ok && (f.item == "text" || f.choices[text])
}

// accepts says whether a fact has its type and is not equal to its default, which is omitted.
func (f factForm) accepts(value any) bool {
	if f.isArray {
		items, ok := value.([]any)
		for _, item := range items {
			ok = ok && f.hasType(item)
		}
		return ok && !(f.isOptional && len(items) == 0)
	}
	// Releases up to 0.2 wrote a limit also where it had its default.
	if !f.hasType(value) || !f.isOptional || f.item == "limit" {
		return f.hasType(value)
	}
	if fallback, ok := f.fallback.(json.Number); ok {
		return value != number(fallback.String())
	}
	return value != f.fallback
}

// ---- Reading an entry.

func readEntry(data []byte) *entry {
	require(len(data) <= maxEntry, "an entry of %d bytes; the maximum is %d", len(data), maxEntry)
	value, ok := readJSON(data).(*object)
	// In canonical JSON, the only escapes besides those of \ and " are of control characters.
	bare := strings.ReplaceAll(strings.ReplaceAll(string(data), `\\`, ""), `\"`, "")
	control := strings.IndexFunc(bare, func(c rune) bool { return c == '\\' || c >= 0x7f && c <= 0x9f })
	require(control < 0, "a string contains a control character")
	require(ok && equalTexts(value.names, members), "the members are not those of an entry in their order")
	require(value.get("v") == "forum/entry/1", "unsupported entry format")
	e := &entry{}
	for _, name := range []string{"log", "run", "strand", "step", "actor"} {
		require(isLabel(asText(value.get(name))), "a label is empty, too long, or not plain ASCII")
	}
	e.log, e.run, e.strand = asText(value.get("log")), asText(value.get("run")), asText(value.get("strand"))
	e.kind, e.prev = asText(value.get("kind")), asText(value.get("prev"))
	require(isKind(e.kind), "malformed kind")
	n, isN := asCount(value.get("n"))
	ts, isTime := asCount(value.get("ts"))
	require(isN && isTime, "n and ts must be integers below 2^53")
	e.n, e.ts = n, ts
	_, isText := value.get("prev").(string)
	require(isText && (n == 0 && e.prev == "" || n != 0 && isHash(e.prev)), "prev must be a leaf hash, or empty at n = 0")
	e.readParents(value.get("parents"))
	e.readBodies(value.get("bodies"))
	e.readFacts(value.get("facts"))
	return e
}

func (e *entry) readParents(value any) {
	listed, ok := value.([]any)
	seen := map[string]bool{}
	for _, item := range listed {
		parent := asText(item)
		ok = ok && isHash(parent)
		seen[parent] = true
		e.parents = append(e.parents, parent)
	}
	require(ok, "parents must be leaf hashes")
	require(len(seen) == len(listed) && len(listed) <= maxParents, "too many parents, or a parent is listed twice")
}

func (e *entry) readBodies(value any) {
	bodies, ok := value.(*object)
	require(ok && sort.StringsAreSorted(bodies.names), "bodies must be in the order of their names")
	e.bodyNames, e.bodies = bodies.names, map[string]commitment{}
	kind, known := kinds[e.kind]
	for _, name := range bodies.names {
		body, ok := bodies.get(name).(*object)
		formed := ok && equalTexts(body.names, bodyMembers) && isBodyName(name)
		require(formed, "body %q: invalid name or members", name)
		size, isSize := asCount(body.get("size"))
		formed = isHash(asText(body.get("h"))) && isSize && isMediaType(asText(body.get("type")))
		require(formed, "body %q: invalid hash, size or type", name)
		require(!known || kind.bodies[name], "%s has no body %s", e.kind, name)
		e.bodies[name] = commitment{asText(body.get("h")), size}
	}
}

func (e *entry) readFacts(value any) {
	facts, ok := value.(*object)
	require(ok && isPlain(facts, 1), "facts must be an object of strings, integers, arrays and objects")
	e.facts = facts
	kind, known := kinds[e.kind]
	if !known {
		return
	}
	var present []string
	for _, form := range kind.facts {
		fits := form.isOptional
		if facts.has(form.name) {
			present = append(present, form.name)
			fits = form.accepts(facts.get(form.name))
		}
		require(fits, "the fact %s is missing, invalid, or equal to its default", form.name)
	}
	require(equalTexts(present, facts.names), "a fact that the kind does not have, or facts out of order")
}
