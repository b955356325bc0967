package main

// Encodings: others than the canonical form are refused, so that each value has one hash.

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// rejected is what reject panics with, and what attempt turns into an error.
type rejected struct{ why string }

func (r rejected) Error() string { return r.why }

func reject(why string, values ...any) {
	if len(values) > 0 {
		why = fmt.Sprintf(why, values...)
	}
	panic(rejected{why})
}

func require(condition bool, why string, values ...any) {
	if !condition {
		reject(why, values...)
	}
}

// attempt runs a check, and returns why it rejected something, or nil.
func attempt(check func()) (err error) {
	defer func() {
		if raised := recover(); raised != nil {
			why, ok := raised.(rejected)
			if !ok {
				panic(raised)
			}
			err = why
		}
	}()
	check()
	return nil
}

// readBase64 decodes standard base64; it refuses missing padding, stray bits and line breaks.
func readBase64(text string) []byte {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	require(err == nil && base64.StdEncoding.EncodeToString(raw) == text, "not canonical base64")
	return raw
}

func readHash(text string) hash {
	raw := readBase64(text)
	require(len(raw) == 32, "a hash has %d bytes, not 32", len(raw))
	var h hash
	copy(h[:], raw)
	return h
}

var isDecimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`).MatchString

func readDecimal(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	require(isDecimal(text) && err == nil, "%.20q is not a decimal number below 2^63", text)
	return number
}

func readUTF8(data []byte) string {
	require(utf8.Valid(data), "not UTF-8")
	return string(data)
}

// ---- JSON in canonical form: no white space, no unnecessary escapes, integers only, no name twice.

// number is a JSON integer as it is written.
type number string

// object keeps the order of its members.
type object struct {
	names  []string
	values map[string]any
}

func (o *object) get(name string) any { return o.values[name] }

func (o *object) has(name string) bool { _, ok := o.values[name]; return ok }

const maxJSONDepth = 900

type jsonReader struct {
	text string
	at   int
}

func readJSON(data []byte) any {
	reader := &jsonReader{text: readUTF8(data)}
	value := reader.value(0)
	require(reader.at == len(reader.text), "JSON that is not in canonical form")
	return value
}

func (r *jsonReader) take(text string) bool {
	if strings.HasPrefix(r.text[r.at:], text) {
		r.at += len(text)
		return true
	}
	return false
}

func (r *jsonReader) value(depth int) any {
	require(depth < maxJSONDepth, "JSON that is nested too deeply")
	switch {
	case r.take("{"):
		return r.object(depth)
	case r.take("["):
		return r.array(depth)
	case strings.HasPrefix(r.text[r.at:], `"`):
		return r.string()
	case r.take("true"):
		return true
	case r.take("false"):
		return false
	case r.take("null"):
		return nil
	}
	start := r.at
	r.take("-")
	digits := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	text := r.text[digits:r.at]
	formed := text != "" && (text[0] != '0' || text == "0" && start == digits)
	require(formed, "JSON that is not in canonical form")
	return number(r.text[start:r.at])
}

func (r *jsonReader) object(depth int) *object {
	o := &object{values: map[string]any{}}
	if r.take("}") {
		return o
	}
	for {
		name := r.string()
		require(r.take(":") && !o.has(name), "JSON that is not in canonical form")
		o.names = append(o.names, name)
		o.values[name] = r.value(depth + 1)
		if r.take("}") {
			return o
		}
		require(r.take(","), "not JSON")
	}
}

func (r *jsonReader) array(depth int) []any {
	items := []any{}
	if r.take("]") {
		return items
	}
	for {
		items = append(items, r.value(depth+1))
		if r.take("]") {
			return items
		}
		require(r.take(","), "not JSON")
	}
}

// escapes are the characters that are written with an escape, and the only form that each has.
var escapes = func() map[string]string {
	table := map[string]string{`\"`: `"`, `\\`: `\`, `\b`: "\b", `\f`: "\f", `\n`: "\n", `\r`: "\r", `\t`: "\t"}
	for code := 0; code < 0x20; code++ {
		if !strings.ContainsRune("\b\f\n\r\t", rune(code)) {
			table[fmt.Sprintf(`\u%04x`, code)] = string(rune(code))
		}
	}
	return table
}()

func (r *jsonReader) string() string {
	require(r.take(`"`), "not JSON")
	var plain strings.Builder
	for {
		start := r.at
		for r.at < len(r.text) && r.text[r.at] != '"' && r.text[r.at] != '\\' && r.text[r.at] >= 0x20 {
			r.at++
		}
		plain.WriteString(r.text[start:r.at])
		if r.take(`"`) {
			return plain.String()
		}
		length := 2
		if strings.HasPrefix(r.text[r.at:], `\u`) {
			length = 6
		}
		require(r.at+length <= len(r.text), "not JSON")
		meant, ok := escapes[r.text[r.at:r.at+length]]
		require(ok, "JSON that is not in canonical form")
		plain.WriteString(meant)
		r.at += length
	}
}

// writeString returns a string as canonical JSON.
func writeString(text string) string {
	var quoted strings.Builder
	quoted.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			quoted.WriteString(`\` + string(c))
		case c < 0x20:
			quoted.WriteString(shortEscape[c])
		default:
			quoted.WriteRune(c)
		}
	}
	quoted.WriteByte('"')
	return quoted.String()
}

var shortEscape = func() map[rune]string {
	table := map[rune]string{}
	for written, meant := range escapes {
		table[rune(meant[0])] = written
	}
	return table
}()
