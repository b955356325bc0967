package main

// The run: strands, causes, bodies, times and reports.

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"regexp"
	"sort"
	"strings"
)

const maxClockSkew = 300 * 1_000_000

type strandState struct {
	n    int64
	head string
}

type treeID struct {
	size int64
	root string
}

type absentBody struct {
	leaf, name string
	index      int64
	entry      *entry
}

// runChecker receives entries in index order and follows those of the bundle's run.
type runChecker struct {
	bundle   *bundle
	findings *findings
	ids      map[string]bool
	strands  map[string]strandState
	absent   []absentBody
	redacted map[[2]string]bool
	holds    map[string][]string // the runs of each hold in force
	own      map[string]bool     // the ids of the entries of the run that have bodies
	signed   map[treeID]int64
	cosigned map[int64]int64
	floor    int64
	first    int64 // the index of the first entry of the run
	last     int64 // that of the last one, or -1
	openings int
	open     bool
	closed   bool
	unlisted bool
	bodies   bodyCounts
}

func (r *runChecker) checkEntry(index int64, leaf string, e *entry) {
	if e.log != r.bundle.origin {
		r.findings.add("foreign-entry", "it belongs to "+e.log, index, e)
	}
	if e.run == r.bundle.run {
		if r.last < 0 {
			r.first = index
		}
		r.last = index
		r.checkSuccessor(index, leaf, e)
		for _, parent := range e.parents {
			if !r.ids[parent] {
				r.findings.add("parent-unknown", "no earlier entry has the id "+parent, index, e)
			}
		}
		r.checkBodies(index, leaf, e)
		if len(e.bodyNames) > 0 {
			r.own[leaf] = true
		}
	}
	r.followHold(e)
	r.checkRedaction(index, e)
	for _, target := range redactedBodies(e) {
		r.redacted[target] = true
	}
	r.ids[leaf] = true
}

// followHold keeps the holds in force, if the entry places or releases one.
func (r *runChecker) followHold(e *entry) {
	if [3]string{e.run, e.strand, e.kind} != [3]string{"log", "retention", "hold/1"} {
		return
	}
	if e.text("act") == "place" {
		r.holds[e.text("hold")] = e.texts("runs")
	} else {
		delete(r.holds, e.text("hold"))
	}
}

// findHold returns the name of a hold that keeps the run, and whether there is one.
func (r *runChecker) findHold() (string, bool) {
	found, any := "", false
	for name, runs := range r.holds {
		keeps := len(runs) == 0
		for _, run := range runs {
			keeps = keeps || run == r.bundle.run
		}
		if keeps && (!any || name < found) {
			found, any = name, true
		}
	}
	return found, any
}

// checkRedaction reports a redaction of the run that stands behind a hold, or under another name.
func (r *runChecker) checkRedaction(index int64, e *entry) {
	var named []string
	if e.kind == "redact/3" {
		named = e.texts("runs")
	}
	for _, target := range redactedBodies(e) {
		if !r.own[target[0]] {
			continue
		}
		place := 0
		for e.parents[place] != target[0] {
			place++
		}
		if len(named) > 0 && named[place] != r.bundle.run {
			detail := fmt.Sprintf("its parent %d is an entry of run %s, not of %s", place, r.bundle.run, named[place])
			r.findings.add("parent-unknown", detail, index, e)
			return
		}
		if hold, held := r.findHold(); held {
			detail := fmt.Sprintf("it erases body '%s' of run %s, which hold %s keeps", target[1], r.bundle.run, hold)
			r.findings.add("hold-broken", detail, index, e)
			return
		}
	}
}

var isParentPlace = regexp.MustCompile(`^(0|[1-9][0-9]?)$`).MatchString

// redactedBodies returns entry id and name of each body that an entry redacts, if it is in force.
// Elsewhere it has no effect: the writer of a run must not be able to explain away its gaps.
func redactedBodies(e *entry) [][2]string {
	var targets [][2]string
	switch [3]string{e.run, e.strand, e.kind} {
	case [3]string{"log", "main", "redact/1"}:
		if len(e.parents) > 0 && e.parents[0] == e.text("entry") {
			targets = append(targets, [2]string{e.text("entry"), e.text("body")})
		}
	case [3]string{"log", "retention", "redact/2"}, [3]string{"log", "retention", "redact/3"}:
		count := len(e.parents)
		if runs := len(e.texts("runs")); e.kind == "redact/3" && runs < count {
			count = runs
		}
		for _, item := range e.facts.get("bodies").([]any) {
			place, name, _ := strings.Cut(asText(item), "/")
			if isParentPlace(place) && isBodyName(name) && readIndex(place) < int64(count) {
				targets = append(targets, [2]string{e.parents[readIndex(place)], name})
			}
		}
	}
	return targets
}

func (r *runChecker) checkSuccessor(index int64, leaf string, e *entry) {
	if _, begun := r.strands[e.strand]; !begun {
		r.beginStrand(index, e)
	}
	state := r.strands[e.strand]
	switch {
	case e.n < state.n:
		r.findings.add("position-doubled", fmt.Sprintf("an earlier entry has position %d", e.n), index, e)
	case e.n > state.n:
		detail := fmt.Sprintf("positions %d to %d of the strand are missing", state.n, e.n-1)
		r.findings.add("position-missing", detail, index, e)
	case e.prev != state.head:
		r.findings.add("link-broken", "prev is not the id of the entry before it", index, e)
	}
	next := state.n
	if e.n+1 > next {
		next = e.n + 1
	}
	r.strands[e.strand] = strandState{next, leaf}
	r.checkTime(index, e)
	if e.strand == "main" && e.kind == "run.close/1" {
		r.checkClose(index, e)
	}
}

// interval returns when the run was written, as far as witnessed checkpoints prove it.
func (r *runChecker) interval() *interval {
	if r.last < 0 {
		return &interval{}
	}
	// The root that the opening names cannot be known before its tree is there.
	after, before := r.floor, int64(0)
	for size, time := range r.cosigned {
		if size <= r.first && time > after {
			after = time
		}
		if size > r.last && (before == 0 || time < before) {
			before = time
		}
	}
	return &interval{secondsOf(after), secondsOf(before)}
}

func secondsOf(micros int64) *int64 {
	if seconds := micros / 1_000_000; seconds != 0 {
		return &seconds
	}
	return nil
}

func (r *runChecker) timeBounds(index int64) (int64, int64) {
	floor, ceiling := int64(0), int64(maxCount-maxClockSkew)
	for size, time := range r.cosigned {
		if size <= index && time > floor {
			floor = time
		}
		if size > index && time < ceiling {
			ceiling = time
		}
	}
	return floor, ceiling
}

func (r *runChecker) checkTime(index int64, e *entry) {
	floor, ceiling := r.timeBounds(index)
	if r.floor > floor {
		floor = r.floor
	}
	if e.ts < floor-maxClockSkew || e.ts > ceiling+maxClockSkew {
		late := "behind"
		if e.ts > ceiling {
			late = "ahead"
		}
		detail := fmt.Sprintf("the times of witnesses contradict its time %d. The clock of the machine that wrote it was probably %s", e.ts/1_000_000, late)
		r.findings.add("time-impossible", detail, index, e)
	}
}

func (r *runChecker) beginStrand(index int64, e *entry) {
	if r.closed {
		r.findings.add("after-close", "the run was closed before this entry", index, e)
	}
	if !r.open {
		r.open = true
		r.openings++
		r.checkOpening(index, e)
	}
	if e.strand != "main" && len(e.parents) == 0 {
		r.findings.add("cause-missing", "the first entry of a strand has no parent", index, e)
	}
	r.strands[e.strand] = strandState{}
}

func (r *runChecker) checkOpening(index int64, e *entry) {
	opening := "run.open/1"
	if e.run == "log" {
		opening = "log.open/1"
	}
	if e.kind != opening {
		r.findings.add("run-unopened", "the first entry is not log.open or run.open", index, e)
		return
	}
	past := treeID{e.count("after_size", 0), e.text("after_root")}
	time, known := r.signed[past]
	if past.size != 0 && known {
		r.floor = time
	} else if past.size != 0 && len(r.signed) > 0 {
		detail := fmt.Sprintf("it names a checkpoint of size %d that is not in the bundle", past.size)
		r.findings.add("past-unknown", detail, index, e)
	}
}

func (r *runChecker) checkClose(index int64, e *entry) {
	delete(r.strands, "main")
	seen := map[string]strandState{}
	for name, state := range r.strands {
		seen[name] = strandState{state.n - 1, state.head}
	}
	listed, known := r.readEnds(index, e)
	if !known {
		r.unlisted, listed = true, seen
	}
	wrong := map[string]bool{}
	for name, state := range seen {
		if listed[name] != state {
			wrong[name] = true
		}
	}
	for name, state := range listed {
		if other, ok := seen[name]; !ok || other != state {
			wrong[name] = true
		}
	}
	if len(wrong) > 0 || e.count("strands", 0) != int64(len(seen)) {
		detail := "the close does not match the strands " + strings.Join(sortedKeys(wrong), ", ")
		r.findings.add("strand-unclosed", detail, index, e)
	}
	r.strands = map[string]strandState{}
	r.open, r.closed = false, true
}

// readEnds returns the strands that a close lists; false if the list is missing or altered, which
// the check of the body reports.
func (r *runChecker) readEnds(index int64, e *entry) (map[string]strandState, bool) {
	place := bodyPlace{index, "strands"}
	c, committed := e.bodies["strands"]
	if committed && !(r.bundle.bodies[place] && r.bundle.hasMatchingBody(place, c)) {
		return nil, false
	}
	var data []byte
	if committed {
		data = r.bundle.body(place)
	}
	listed := map[string]strandState{}
	err := attempt(func() {
		ends, ok := readJSON(data).([]any)
		require(ok, "not a list")
		var names []string
		for _, item := range ends {
			end, _ := item.([]any)
			require(len(end) == 3, "a line that is not name, n and leaf hash")
			name, isName := end[0].(string)
			n, isCount := asCount(end[1])
			head, isHead := end[2].(string)
			require(isName && isCount && isHead, "a line that is not name, n and leaf hash")
			names, listed[name] = append(names, name), strandState{n, head}
		}
		require(sort.StringsAreSorted(names) && len(names) == len(listed), "not in the order of the names")
	})
	if err != nil {
		return map[string]strandState{"": {}}, true // a malformed list matches no strands
	}
	return listed, true
}

func (r *runChecker) checkBodies(index int64, leaf string, e *entry) {
	for _, name := range e.bodyNames {
		place := bodyPlace{index, name}
		if !r.bundle.bodies[place] {
			r.absent = append(r.absent, absentBody{leaf, name, index, e})
		} else if r.bundle.hasMatchingBody(place, e.bodies[name]) {
			r.bodies.OK++
		} else {
			r.bodies.Mismatch++
			r.findings.add("body-mismatch", fmt.Sprintf("body '%s' does not match its commitment", name), index, e)
		}
	}
}

// finish reports an empty run and missing bodies, after all entries.
func (r *runChecker) finish() {
	if r.openings == 0 {
		r.findings.add("run-unopened", "there is no entry of run "+r.bundle.run, -1, nil)
	}
	for _, a := range r.absent {
		if r.redacted[[2]string{a.leaf, a.name}] {
			r.bodies.Redacted++
			continue
		}
		r.bodies.Missing++
		detail := fmt.Sprintf("body '%s' is missing, and no redaction explains it", a.name)
		r.findings.add("body-missing", detail, a.index, a.entry)
	}
}

// ---- Reported runs: docs/spec/report.md.

var provenances = []string{"driven", "relayed", "wrapped", "reported"}

// amounts are nano-dollars, tokens and calls.  A sum may be larger than any count.
type amounts [3]*big.Int

func newAmounts(usd, tokens, calls int64) amounts {
	return amounts{big.NewInt(usd), big.NewInt(tokens), big.NewInt(calls)}
}

type reportChecker struct {
	findings *findings
	words    map[string]int
	said     int
	opened   int
	gaps     map[string]*gap
	begun    map[string]*object
	cap      *[3]int64
	used     amounts
	overrun  amounts
}

func (r *reportChecker) checkEntry(index int64, e *entry) {
	fault := ""
	switch {
	case e.kind == "run.open/1" && e.strand == "main":
		r.opened++
	case e.kind == "accepted/1" && e.strand == "main":
		r.say("driven")
	case e.kind == "report.source/1":
		fault = r.checkSource(e)
	case e.kind == "report.gap/1":
		why := e.text("why")
		if r.gaps[why] == nil {
			r.gaps[why] = &gap{Why: why, Steps: new(big.Int)}
		}
		r.gaps[why].Gaps++
		r.gaps[why].Steps.Add(r.gaps[why].Steps, big.NewInt(e.count("steps", 0)))
	case e.kind == "report.begin/1" || e.kind == "report.step/1":
		fault = r.checkSpan(e)
	}
	if fault != "" {
		r.findings.add("report-invalid", fault, index, e)
	}
}

func (r *reportChecker) say(word string) {
	r.words[word]++
	r.said++
}

func (r *reportChecker) checkSource(e *entry) string {
	if e.strand == "main" {
		limits := [3]int64{e.count("usd", maxCount), e.count("tokens", maxCount), e.count("calls", maxCount)}
		r.cap = nil
		if limits != [3]int64{maxCount, maxCount, maxCount} {
			r.cap = &limits
		}
	}
	if e.strand != "main" || e.n != 1 {
		return "the source of a run does not follow its opening"
	}
	r.say(e.text("told"))
	return ""
}

// checkSpan checks that a span has at most one beginning and one end, and that they agree.
func (r *reportChecker) checkSpan(e *entry) string {
	begins := e.kind == "report.begin/1"
	var begun *object
	if !begins {
		begun = r.begun[e.strand]
		delete(r.begun, e.strand)
	}
	r.count(e, begun, begins)
	if begins {
		r.begun[e.strand] = e.facts
	}
	switch {
	case e.strand != "span/"+e.text("span"):
		return fmt.Sprintf("it names the span %s, which is not that of its strand", e.text("span"))
	case begins && e.n != 0:
		return "the beginning of a span is not its first entry"
	case begins:
		return ""
	case e.n > 1:
		return "a span has more than one beginning and one end"
	case e.n != 0 && begun == nil:
		return "a span has two ends"
	case begun != nil && (begun.get("op") != e.facts.get("op") || begun.get("name") != e.facts.get("name")):
		return fmt.Sprintf("it ends %s %s, and %s %s was begun", e.text("op"), e.text("name"), asText(begun.get("op")), asText(begun.get("name")))
	}
	return ""
}

// count adds a reservation, or replaces it by what the step cost; a first entry settles nothing.
func (r *reportChecker) count(e *entry, begun *object, begins bool) {
	var more [3]int64
	if begins {
		more = [3]int64{e.count("usd", 0), e.count("tokens", 0), e.count("calls", 0)}
	} else if e.n != 0 {
		tokens := e.count("input_tokens", 0) + e.count("output_tokens", 0)
		more = [3]int64{e.count("usd", 0) - countOf(begun, "usd", 0), tokens - countOf(begun, "tokens", 0), 0}
		// A call that was not made is given back; all others were counted when they began.
		if e.text("outcome") == "cancelled" && e.text("code") == "not-made" {
			more[2] = -countOf(begun, "calls", 0)
		}
	}
	for i, change := range more {
		r.used[i].Add(r.used[i], big.NewInt(change))
		if begun != nil && change > 0 {
			r.overrun[i].Add(r.overrun[i], big.NewInt(change))
		}
	}
}

// finish compares what a closed run has spent with its cap.
func (r *reportChecker) finish(run string, closed bool) {
	if !closed || r.cap == nil {
		return
	}
	for i, unit := range []string{"nano-dollars", "tokens", "calls"} {
		most := new(big.Int).Add(big.NewInt(r.cap[i]), r.overrun[i])
		if r.used[i].Cmp(most) > 0 {
			detail := fmt.Sprintf("run %s has used %d %s, and may use %d", run, r.used[i], unit, r.cap[i])
			r.findings.add("report-invalid", detail, -1, nil)
			return
		}
	}
}

func (r *reportChecker) coverage() coverage {
	words := map[string]int{}
	for word, count := range r.words {
		words[word] = count
	}
	// A run without a request and without a source is reported: nobody says how it came about.
	if r.opened > r.said {
		words["reported"] += r.opened - r.said
	}
	c := coverage{words["driven"], words["relayed"], words["wrapped"], words["reported"], []gap{}}
	for _, why := range sortedKeys(r.gaps) {
		c.Gaps = append(c.Gaps, *r.gaps[why])
	}
	return c
}

func (c coverage) isToldByOthers() bool { return c.Relayed+c.Wrapped+c.Reported > 0 }

func hexOf(h hash) string { return hex.EncodeToString(h[:]) }
