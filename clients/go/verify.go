package main

// The verification of a bundle, and the report: the members are those of verify.py --json.

import (
	"fmt"
	"math/big"
	"sort"
	"strings"
)

const (
	holds      = "holds"
	fails      = "fails"
	notChecked = "not checked"
	everything = "everything in it"
	maxListed  = 1000
)

type claimResult struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
}

var (
	noKey       = claimResult{notChecked, "you named no key of the log: nothing was checked"}
	noTrustFile = claimResult{notChecked, "you named no trust file: whether witnesses have seen it was not checked"}
)

type finding struct {
	Problem string  `json:"problem"`
	Claim   string  `json:"claim"`
	Detail  string  `json:"detail"`
	Index   *int64  `json:"index"`
	Entry   *string `json:"entry"`
}

func (f finding) describe() string {
	var place []string
	if f.Index != nil {
		place = append(place, fmt.Sprintf("entry %d", *f.Index))
	}
	if f.Entry != nil {
		place = append(place, *f.Entry)
	}
	at := ""
	if len(place) > 0 {
		at = " at "
	}
	return f.Problem + at + strings.Join(place, ", ") + ": " + f.Detail
}

// refutes names the claim that each problem refutes: docs/spec/bundle.md, Findings.
var refutes = func() map[string]string {
	table := map[string]string{}
	for claim, problems := range map[string]string{
		"intact":      "bundle-altered entry-malformed foreign-entry proof-rejected signature-rejected link-broken parent-unknown body-mismatch report-invalid",
		"complete":    "position-missing position-doubled cause-missing run-unopened after-close strand-unclosed body-missing hold-broken",
		"independent": "history-replaced not-witnessed time-impossible past-unknown cosignature-missing",
	} {
		for _, problem := range strings.Fields(problems) {
			table[problem] = claim
		}
	}
	return table
}()

type findings struct {
	listed []finding
	count  int
	first  map[string]string
}

func newFindings() *findings { return &findings{listed: []finding{}, first: map[string]string{}} }

// add adds a finding; the index is negative if it is about no entry.
func (f *findings) add(problem, detail string, index int64, e *entry) {
	one := finding{Problem: problem, Claim: refutes[problem], Detail: detail}
	if index >= 0 {
		one.Index = &index
	}
	if e != nil {
		place := fmt.Sprintf("%s/%s/%d", e.run, e.strand, e.n)
		one.Entry = &place
	}
	f.count++
	if _, known := f.first[one.Claim]; !known {
		f.first[one.Claim] = one.describe()
	}
	if f.count <= maxListed {
		f.listed = append(f.listed, one)
	}
}

// judge returns the result of a claim: it holds unless there is a finding or an unknown.
func (f *findings) judge(claim, reason, unknown string) claimResult {
	if first, refuted := f.first[claim]; refuted {
		return claimResult{fails, first}
	}
	if unknown != "" {
		return claimResult{notChecked, unknown}
	}
	return claimResult{holds, reason}
}

type bodyCounts struct {
	OK       int `json:"ok"`
	Redacted int `json:"redacted"`
	Missing  int `json:"missing"`
	Mismatch int `json:"mismatch"`
}

type gap struct {
	Why   string   `json:"why"`
	Gaps  int64    `json:"gaps"`
	Steps *big.Int `json:"steps"`
}

type coverage struct {
	Driven   int   `json:"driven"`
	Relayed  int   `json:"relayed"`
	Wrapped  int   `json:"wrapped"`
	Reported int   `json:"reported"`
	Gaps     []gap `json:"gaps"`
}

type sighting struct {
	Witness     string `json:"witness"`
	Time        uint64 `json:"time"`
	SameMachine bool   `json:"same_machine"`
	Independent bool   `json:"independent"`
}

type report struct {
	Schema      string      `json:"schema"`
	OK          bool        `json:"ok"`
	Origin      string      `json:"origin"`
	Size        int64       `json:"size"`
	Root        string      `json:"root"`
	Intact      claimResult `json:"intact"`
	Complete    claimResult `json:"complete"`
	Independent claimResult `json:"independent"`
	Findings    []finding   `json:"findings"`
	Found       int         `json:"found"`
	NotChecked  []string    `json:"not_checked"`
	Entries     int         `json:"entries"`
	Runs        int         `json:"runs"`
	OpenRuns    []string    `json:"open_runs"`
	Bodies      bodyCounts  `json:"bodies"`
	Pending     int         `json:"pending"`
	Sightings   []sighting  `json:"sightings"`
	Epochs      []string    `json:"epochs"`
	Notices     []string    `json:"notices"`
	Coverage    coverage    `json:"coverage"`
	Witnessing  string      `json:"witnessing"`
	Interval    *interval   `json:"interval"`
}

// interval is the proven interval of a run, in seconds; nil where it was not checked.
type interval struct {
	After  *int64 `json:"after"`
	Before *int64 `json:"before"`
}

const (
	unboundedBelow = "when the run began: it is not bounded below, because no tree before it is cosigned as your trust file asks; it may be newer than its times say"
	unboundedAbove = "when the run was there: it is not bounded above, because no tree with all of it is cosigned as your trust file asks"
)

func unreadableReport(f *findings) *report {
	unknown := claimResult{notChecked, "the bundle could not be read"}
	return &report{
		Schema: "forum.report/1", Intact: f.judge("intact", "", ""), Complete: unknown, Independent: unknown,
		Findings: f.listed, Found: f.count, NotChecked: []string{everything}, OpenRuns: []string{},
		Sightings: []sighting{}, Epochs: []string{}, Notices: []string{}, Coverage: coverage{Gaps: []gap{}},
		Witnessing: "none",
	}
}

// trust is what the reader brings along; nothing of it comes from a bundle.
type trust struct {
	keys   []key
	policy *policy
	seen   [][]byte
	// maxBytes is how many bytes the bodies of a file may have together.
	maxBytes int64
}

func (t trust) pinned() []key {
	keys := append([]key{}, t.keys...)
	if t.policy != nil {
		keys = append(keys, t.policy.logs...)
	}
	return uniqueKeys(keys)
}

// describeForeign returns one sentence if all trusted keys are of other logs, or nothing.
func (t trust) describeForeign(origin string) string {
	names := map[string]bool{}
	for _, k := range t.pinned() {
		names[k.name] = true
	}
	if len(names) == 0 || names[origin] {
		return ""
	}
	all := append(sortedKeys(names), origin)
	ends, seen := []string{}, map[string]bool{}
	for _, name := range all {
		short := name
		if characters := []rune(name); len(characters) > 20 {
			short = "\u2026" + string(characters[len(characters)-8:])
		}
		ends, seen[short] = append(ends, short), true
	}
	if len(seen) < len(ends) {
		ends = all
	}
	yours, logs := "key is of", "logs"
	if t.policy != nil {
		yours = "trust file is for"
	}
	if len(names) == 1 {
		logs = "log"
	}
	last := len(ends) - 1
	return fmt.Sprintf("Your %s the %s %s; this bundle is of %s.", yours, logs, strings.Join(ends[:last], " and "), ends[last])
}

func verifyBundle(data []byte, t trust) *report {
	var r *report
	err := attempt(func() {
		b := readBundle(data, t.maxBytes)
		if sentence := t.describeForeign(b.origin); sentence != "" {
			r = foreignReport(b.origin, sentence)
			return
		}
		r = newVerifier(b, t).run()
	})
	if err != nil {
		f := newFindings()
		f.add("bundle-altered", err.Error(), -1, nil)
		r = unreadableReport(f)
	}
	r.OK = r.Intact.State == holds && r.Complete.State == holds && r.Independent.State == holds
	return r
}

func foreignReport(origin, sentence string) *report {
	f := newFindings()
	f.add("signature-rejected", sentence, -1, nil)
	r := unreadableReport(f)
	r.Origin, r.Intact = origin, claimResult{fails, sentence}
	r.Complete = claimResult{notChecked, "nothing was checked"}
	r.Independent = r.Complete
	return r
}

// verifier is the state of one verification.
type verifier struct {
	bundle     *bundle
	trust      trust
	findings   *findings
	logKeys    *logKeys
	keys       []key
	checker    *runChecker
	reports    *reportChecker
	tree       *checkpoint
	seen       []cosignature
	notices    []string
	committed  map[bodyPlace]bool
	unknown    map[string]int
	hasTurns   bool
	hasRequest bool
	hasAccord  bool
	subjects   []string
}

func newVerifier(b *bundle, t trust) *verifier {
	f, pinned := newFindings(), t.pinned()
	v := &verifier{bundle: b, trust: t, findings: f, logKeys: newLogKeys(b, pinned), committed: map[bodyPlace]bool{}, unknown: map[string]int{}}
	v.keys = uniqueKeys(append(pinned, v.logKeys.accepted...))
	v.notices = append(v.notices, v.logKeys.notices...)
	v.checker = &runChecker{bundle: b, findings: f, ids: map[string]bool{}, strands: map[string]strandState{}, redacted: map[[2]string]bool{}, holds: map[string][]string{}, own: map[string]bool{}, signed: map[treeID]int64{}, cosigned: map[int64]int64{}, last: -1}
	v.reports = &reportChecker{findings: f, words: map[string]int{}, gaps: map[string]*gap{}, begun: map[string]*object{}, used: newAmounts(0, 0, 0), overrun: newAmounts(0, 0, 0)}
	if len(v.keys) > 0 {
		v.tree = v.open(b.checkpoint, true)
	}
	v.seen = v.cosignatures(b.checkpoint)
	return v
}

func (v *verifier) open(data []byte, own bool) *checkpoint {
	var opened checkpoint
	err := attempt(func() {
		opened = openCheckpoint(data, v.keys)
		if own {
			v.logKeys.checkSigner(data)
		}
	})
	if err != nil {
		v.findings.add("signature-rejected", "checkpoint: "+err.Error(), -1, nil)
		return nil
	}
	return &opened
}

func (v *verifier) cosignatures(data []byte) []cosignature {
	var seen []cosignature
	if v.trust.policy == nil {
		return nil
	}
	err := attempt(func() { seen = readCosignatures(data, v.trust.policy.witnessKeys()) })
	if err != nil {
		v.findings.add("signature-rejected", "cosignature: "+err.Error(), -1, nil)
	}
	return seen
}

func (v *verifier) run() *report {
	if v.tree != nil {
		if v.tree.origin != v.bundle.origin {
			v.findings.add("bundle-altered", "the checkpoint is of another log", -1, nil)
		}
		v.checkPast()
		v.checkMemories()
	}
	for _, index := range v.bundle.entries {
		v.checkEntry(index)
	}
	if v.trust.policy != nil && !v.trust.policy.isSatisfiedBy(v.seen) {
		v.findings.add("not-witnessed", "the witnesses of your trust file have not cosigned it", -1, nil)
	}
	v.checker.finish()
	for _, place := range v.bundle.bodyOrder {
		if !v.committed[place] {
			v.findings.add("bundle-altered", fmt.Sprintf("no entry commits to body '%s'", place.name), place.index, nil)
		}
	}
	v.reports.finish(v.bundle.run, v.checker.closed)
	return v.report()
}

// checkPast checks that this tree continues the earlier ones, whose times bound those of the run.
func (v *verifier) checkPast() {
	checkpoints, times := []checkpoint{*v.tree}, map[int64]uint64{}
	v.takeTime(times, *v.tree, v.seen)
	records := readWitnessRecords(v.bundle, *v.tree, v.trust.policy)
	for _, past := range v.bundle.past {
		old := v.open(past.note, true)
		if old == nil {
			continue
		}
		if err := attempt(func() { checkConsistency(past.nodes, *old, *v.tree) }); err != nil {
			v.findings.add("history-replaced", "an earlier checkpoint: "+err.Error(), -1, nil)
			continue
		}
		checkpoints = append(checkpoints, *old)
		cosigned := v.cosignatures(past.note)
		v.takeTime(times, *old, append(cosigned, v.restored(records, *old, readNote(past.note))...))
	}
	var sizes []int64
	for size := range times {
		sizes = append(sizes, size)
	}
	sort.Slice(sizes, func(i, j int) bool { return sizes[i] < sizes[j] })
	listed := make([]int64, len(sizes))
	for i, size := range sizes {
		// A time beyond the largest that an entry can have limits nothing, so it is ignored.
		if times[size] <= maxCount/1_000_000 {
			listed[i] = int64(times[size]) * 1_000_000
		}
	}
	for i, time := range consistentTimes(listed) {
		if time != 0 {
			v.checker.cosigned[sizes[i]] = time
		}
	}
	v.noticeWrongClocks(sizes, times)
	for _, c := range checkpoints {
		v.checker.signed[treeID{c.size, hexOf(c.root)}] = v.checker.cosigned[c.size]
	}
}

func (v *verifier) takeTime(times map[int64]uint64, c checkpoint, cosignatures []cosignature) {
	if v.trust.policy == nil {
		return
	}
	if time := v.trust.policy.quorumTime(cosignatures); time != 0 {
		if known, ok := times[c.size]; !ok || time < known {
			times[c.size] = time
		}
	}
}

// consistentTimes returns the times in the order of the sizes, inconsistent ones set to 0: the
// largest set that agrees with the order is kept, and of several such sets the latest one.
func consistentTimes(times []int64) []int64 {
	var tails []int64 // the smallest time that ends a chain of each length
	var ends []int    // the index of the checkpoint with that time
	before := map[int]int{}
	for i, time := range times {
		length := len(tails)
		for length > 0 && tails[length-1] > time {
			length--
		}
		if time == 0 {
			continue
		}
		before[i] = -1
		if length > 0 {
			before[i] = ends[length-1]
		}
		if length == len(tails) {
			tails, ends = append(tails, time), append(ends, i)
		} else {
			tails[length], ends[length] = time, i
		}
	}
	selected, i := make([]int64, len(times)), -1
	if len(ends) > 0 {
		i = ends[len(ends)-1]
	}
	for i >= 0 {
		selected[i], i = times[i], before[i]
	}
	return selected
}

func (v *verifier) noticeWrongClocks(sizes []int64, times map[int64]uint64) {
	var wrong []string
	for _, size := range sizes {
		if _, used := v.checker.cosigned[size]; used {
			continue
		}
		floor, _ := v.checker.timeBounds(size - 1)
		_, ceiling := v.checker.timeBounds(size)
		time := new(big.Int).Mul(new(big.Int).SetUint64(times[size]), big.NewInt(1_000_000))
		if time.Cmp(big.NewInt(floor-maxClockSkew)) < 0 || time.Cmp(big.NewInt(ceiling+maxClockSkew)) > 0 {
			wrong = append(wrong, fmt.Sprint(size))
		}
	}
	if len(wrong) == 0 {
		return
	}
	listed, count := strings.Join(wrong, ", "), len(wrong)
	if count > 5 {
		listed = strings.Join(wrong[:5], ", ") + ", ..."
	}
	v.notices = append(v.notices, fmt.Sprintf("the times of %d checkpoints (of size %s) contradict the others and were not used: the clock of a witness was wrong", count, listed))
}

// checkMemories compares with remembered checkpoints of the same size.
func (v *verifier) checkMemories() {
	known := map[checkpoint]bool{}
	for _, data := range v.trust.seen {
		old := v.open(data, false)
		if old == nil || known[*old] {
			continue
		}
		known[*old] = true
		if old.origin == v.tree.origin && old.size == v.tree.size && old.root != v.tree.root {
			v.findings.add("history-replaced", fmt.Sprintf("another tree of size %d was seen before", old.size), -1, nil)
		}
	}
}

func (v *verifier) checkEntry(index int64) {
	data, proof := v.bundle.entry(index)
	leaf, isProven := hashLeaf(data), false
	err := attempt(func() {
		own := proof.at == index && string(proof.note) == string(v.bundle.checkpoint)
		require(own, "the proof is for another entry or checkpoint")
		if v.tree != nil {
			checkInclusion(proof.nodes, leaf, index, *v.tree)
			isProven = true
		}
	})
	if err != nil {
		v.findings.add("proof-rejected", err.Error(), index, nil)
	}
	var e *entry
	if err := attempt(func() { e = readEntry(data) }); err != nil {
		v.findings.add("entry-malformed", err.Error(), index, nil)
		return
	}
	checked := e
	if !isProven {
		checked = v.bundle.withoutSpans(index, e)
	}
	v.checker.checkEntry(index, hexOf(leaf), checked)
	if _, known := kinds[e.kind]; !known {
		v.unknown[e.kind]++
	}
	if e.run != v.bundle.run {
		return
	}
	for name := range e.bodies {
		v.committed[bodyPlace{index, name}] = true
	}
	v.hasTurns = v.hasTurns || strings.HasPrefix(e.strand, "turn/")
	v.hasRequest = v.hasRequest || e.kind == "accepted/1"
	v.hasAccord = v.hasAccord || e.kind == "accord/1"
	if e.kind == "about/1" && e.strand == "main" {
		v.subjects = append(v.subjects, e.text("run"))
	}
	v.reports.checkEntry(index, e)
}

func (v *verifier) listNotChecked() []string {
	listed := []string{}
	for _, kind := range sortedKeys(v.unknown) {
		listed = append(listed, fmt.Sprintf("the facts of %d entries of kind %s, unknown to this release", v.unknown[kind], kind))
	}
	run := v.bundle.run
	if v.hasTurns {
		listed = append(listed, fmt.Sprintf("the deliberation of run %s: `forum verify` plays it", run))
		for _, other := range v.subjects {
			listed = append(listed, fmt.Sprintf("the deliberation of run %s: whether what it is about is the answer of run %s, which is not there", run, other))
		}
	} else if v.hasRequest {
		listed = append(listed, fmt.Sprintf("the calls of run %s: `forum verify` replays them", run))
		if v.hasAccord {
			listed = append(listed, fmt.Sprintf("the accords in run %s: `forum verify` compares them with the runs of the panels, if these are there", run))
		}
	}
	if v.trust.policy != nil && v.checker.openings > 0 {
		written := v.checker.interval()
		if written.After == nil {
			listed = append(listed, unboundedBelow)
		}
		if written.Before == nil {
			listed = append(listed, unboundedAbove)
		}
	}
	return listed
}

func (v *verifier) judgeClaims(r *report) {
	r.Intact, r.Complete, r.Independent = noKey, noKey, noTrustFile
	if len(v.keys) > 0 {
		// Only a reader of the whole log can detect a run that was recorded twice.
		closed := "the run is closed, and no strand has a gap; whether the log holds another version of this run was not checked"
		if r.Coverage.isToldByOthers() {
			closed += "; what was not recorded cannot be missing here, see coverage"
		}
		unknown := "the run was open, or its list of strands redacted, when this was exported"
		if v.checker.closed && !v.checker.unlisted {
			unknown = ""
		}
		r.Intact = v.findings.judge("intact", fmt.Sprintf("%d entries, each proven in the signed tree", r.Entries), "")
		r.Complete = v.findings.judge("complete", closed, unknown)
	}
	if v.trust.policy != nil {
		r.Independent = v.findings.judge("independent", v.describeWitnesses(), "")
	}
	if r.Independent.State == holds {
		r.Witnessing = "self-witnessed"
		for _, c := range v.seen {
			if v.trust.policy.isIndependent(c.key, v.trust.keys) {
				r.Witnessing = "independent"
			}
		}
	}
}

func (v *verifier) describeWitnesses() string {
	names, local := map[string]bool{}, len(v.seen) > 0
	for _, c := range v.seen {
		names[c.key.name] = true
		local = local && isLocalWitness(c.key.name)
	}
	reason := "cosigned by " + strings.Join(sortedKeys(names), ", ")
	if local {
		reason += ", a witness on the writer's own machine: as strong as that machine's owner"
	}
	if v.trust.policy.minWitnesses() == 1 {
		reason += "; one witness decides the time"
	}
	return reason
}

func (v *verifier) report() *report {
	r := unreadableReport(v.findings)
	r.Origin, r.NotChecked, r.Entries = v.bundle.origin, v.listNotChecked(), len(v.bundle.entries)
	if v.tree != nil {
		r.Size, r.Root = v.tree.size, hexOf(v.tree.root)
	}
	r.Runs, r.Bodies, r.Coverage = v.checker.openings, v.checker.bodies, v.reports.coverage()
	if v.checker.open && v.bundle.run != "log" {
		r.OpenRuns = []string{v.bundle.run}
	}
	for _, c := range v.seen {
		marked := v.trust.policy.isIndependent(c.key, v.trust.keys)
		r.Sightings = append(r.Sightings, sighting{c.key.name, c.time, isLocalWitness(c.key.name), marked})
	}
	r.Notices = append(r.Notices, v.notices...)
	r.Interval = v.checker.interval()
	v.judgeClaims(r)
	return r
}
