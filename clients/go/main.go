// Forum-verify checks an evidence bundle of Forum: one run of a transparency log.
//
//	forum-verify FILE --policy TRUSTFILE [--key VKEY ...] [--seen CHECKPOINT ...] [--json]
//	             [--max-bytes N]
//
// It is one program without dependencies, written from docs/spec/entry.md and bundle.md, and says
// what verify.py says.  Each of three claims holds, fails, or was not checked: the bundle is intact,
// nothing of the run is missing, and witnesses have seen it.  You choose the keys to trust: the log's
// key (--key, or a log line of your trust file) and the witnesses (--policy, C2SP tlog-policy).
// Nothing in the bundle is trusted.
//
// Exit status: 0 if all claims hold, 3 if one does not, 2 for wrong usage.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

const usage = "usage: forum-verify FILE [--policy TRUSTFILE] [--key VKEY ...] [--seen CHECKPOINT ...] [--json] [--max-bytes N]"

type arguments struct {
	file, policy string
	keys, seen   []string
	asJSON       bool
	maxBytes     string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-entries" {
		checkEntries()
		return
	}
	args, err := readArguments(os.Args[1:])
	if err != nil {
		fail(err.Error())
	}
	trust, data, err := readInput(args)
	if err != nil {
		fail(err.Error())
	}
	if isPack(data) {
		fail(args.file + " is an evidence pack. This program verifies the bundles of runs; use verify.py or `forum verify`.")
	}
	report := verifyBundle(data, trust)
	if args.asJSON {
		encoded, err := json.Marshal(report)
		if err != nil {
			fail(err.Error())
		}
		fmt.Println(escapeJSON(string(encoded)))
	} else {
		printReport(report)
	}
	if !report.OK {
		os.Exit(3)
	}
}

func fail(why string) {
	fmt.Fprintf(os.Stderr, "%s\nforum-verify: %s\n", usage, escapeText(why))
	os.Exit(2)
}

func readArguments(words []string) (arguments, error) {
	var args arguments
	for i := 0; i < len(words); i++ {
		name, value, given := strings.Cut(words[i], "=")
		name = strings.TrimPrefix(name, "-")
		if !strings.HasPrefix(words[i], "-") {
			if args.file != "" {
				return args, fmt.Errorf("one FILE only")
			}
			args.file = words[i]
			continue
		}
		if name == "-json" || name == "json" {
			args.asJSON = true
			continue
		}
		if !given {
			i++
			if i == len(words) {
				return args, fmt.Errorf("%s needs a value", name)
			}
			value = words[i]
		}
		switch strings.TrimPrefix(name, "-") {
		case "policy":
			args.policy = value
		case "key":
			args.keys = append(args.keys, value)
		case "seen":
			args.seen = append(args.seen, value)
		case "max-bytes":
			args.maxBytes = value
		default:
			return args, fmt.Errorf("unknown option %s", words[i])
		}
	}
	if args.file == "" {
		return args, fmt.Errorf("name the FILE of a bundle")
	}
	return args, nil
}

func readInput(args arguments) (trust, []byte, error) {
	var t trust
	err := attempt(func() {
		for _, text := range args.keys {
			t.keys = append(t.keys, readKey(text))
		}
		if args.policy != "" {
			t.policy = readPolicy(readFile(args.policy))
		}
		for _, path := range args.seen {
			t.seen = append(t.seen, readFile(path))
		}
		t.maxBytes = maxBodyBytes
		if args.maxBytes != "" {
			t.maxBytes = readDecimal(args.maxBytes)
		}
	})
	if err != nil {
		return t, nil, err
	}
	var data []byte
	err = attempt(func() { data = readFile(args.file) })
	return t, data, err
}

func readFile(path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		reject(err.Error())
	}
	return data
}

// checkEntries says of each line, an entry in base64, whether its bytes are canonical.  Tests
// compare it with other verifiers.
func checkEntries() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		data, err := base64.StdEncoding.DecodeString(lines.Text())
		if err == nil {
			err = attempt(func() { readEntry(data) })
		}
		if err != nil {
			fmt.Fprintln(out, "refused")
		} else {
			fmt.Fprintln(out, "ok")
		}
	}
}

// ---- The report as text.

func printReport(r *report) {
	var lines []string
	if len(r.NotChecked) == 1 && r.NotChecked[0] == everything {
		if r.Origin != "" {
			lines = append(lines, r.Origin)
		}
		lines = append(lines, "nothing was checked: "+r.Intact.Reason)
	} else {
		lines = append(lines, fmt.Sprintf("%s  size %d  root %s", r.Origin, r.Size, r.Root))
		independent := r.Independent
		if r.Witnessing == "self-witnessed" {
			independent.State = r.Witnessing
		}
		for _, c := range []struct {
			name   string
			result claimResult
		}{{"intact", r.Intact}, {"complete", r.Complete}, {"independent", independent}} {
			lines = append(lines, fmt.Sprintf("%-12s %-14s %s", c.name, c.result.State, c.result.Reason))
		}
		for _, f := range r.Findings {
			lines = append(lines, "found        "+f.describe())
		}
		for _, s := range r.Sightings {
			lines = append(lines, fmt.Sprintf("seen         by %s at %d", s.Witness, s.Time))
		}
		if w := r.Interval; w != nil && w.After != nil && w.Before != nil {
			format := "2006-01-02T15:04:05Z"
			after, before := time.Unix(*w.After, 0).UTC(), time.Unix(*w.Before, 0).UTC()
			lines = append(lines, fmt.Sprintf("written      between %s and %s, witnessed", after.Format(format), before.Format(format)))
		}
		for _, what := range r.NotChecked {
			lines = append(lines, "not checked  "+what)
		}
		for _, notice := range r.Notices {
			lines = append(lines, "note         "+notice)
		}
	}
	for _, line := range lines {
		fmt.Println(escapeText(line))
	}
}

// escapeJSON writes everything but printable ASCII as \uXXXX: the value is the same, and a terminal
// does not obey it.
func escapeJSON(text string) string {
	var out strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		if unit >= ' ' && unit <= '~' {
			out.WriteByte(byte(unit))
		} else {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// escapeText escapes everything but printable ASCII, which cannot change what a terminal shows.
func escapeText(text string) string {
	quoted := strconv.QuoteToASCII(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
