// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads a fault in the language of the package comment. It reads back
// what String of a valid fault printed, as an equal fault. The error says where
// it stopped and what would be allowed there.
func Parse(s string) (Fault, error) {
	l := &lexer{text: s}
	f, err := parseFault(l)
	if err != nil {
		return nil, err
	}
	if end := l.next(); end.kind != endOfText {
		return nil, l.errorf(end, "want the end; to combine faults write any(f, g)")
	}
	return f, nil
}

// MustParse is Parse for expressions that are written in a test. It panics if
// there is an error.
func MustParse(s string) Fault {
	f, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return f
}

// words are what a fault can begin with, in the order of the grammar.
var words = []string{
	"none", "dup", "refuse", "fail", "lose", "reset", "delay", "step", "pause", "cut",
	"on", "name", "nth", "after", "prob", "during", "for", "any",
}

// parseFault reads one fault, and complains about its arguments at its first
// word.
func parseFault(l *lexer) (Fault, error) {
	first := l.next()
	a := &args{lexer: l}
	f := a.fault(first)
	if a.err != nil {
		return nil, a.err
	}
	if err := f.valid(); err != nil {
		return nil, l.errorf(first, "%v", err)
	}
	return f, nil
}

// args reads the arguments of one fault. After the first error it reads
// nothing more and returns zero values, so that its users need not ask after
// each argument.
type args struct {
	*lexer
	count int
	err   error
}

// fault reads what follows the first word. The arguments are evaluated from
// left to right, which is the order in which they stand in the text.
func (a *args) fault(first token) Fault {
	switch first.text {
	case "none":
		return None()
	case "dup":
		return Dup()
	case "refuse":
		return Refuse()
	case "fail":
		return Fail()
	case "lose":
		return a.oneOf(map[string]Fault{"request": LoseRequest(), "reply": LoseReply()}, "request or reply")
	case "reset":
		return a.oneOf(map[string]Fault{"all": ResetAll(), "some": ResetSome()}, "all or some")
	case "delay":
		return closed(a, Delay(a.duration(), a.duration()))
	case "step":
		return closed(a, Step(a.duration()))
	case "pause":
		return closed(a, Pause(a.duration()))
	case "cut":
		return closed(a, Cut(a.duration()))
	case "on":
		return closed(a, On(a.op(), a.sub()))
	case "name":
		return closed(a, Name(a.quoted(), a.sub()))
	case "nth":
		return closed(a, Nth(a.integer(), a.sub()))
	case "after":
		return closed(a, After(a.integer(), a.sub()))
	case "prob":
		return closed(a, Prob(a.number(), a.seed(), a.sub()))
	case "during":
		return closed(a, During(a.duration(), a.duration(), a.sub()))
	case "for":
		return closed(a, For(a.duration(), a.sub()))
	case "any":
		return a.parts()
	}
	a.fail(first, "want a fault: one of "+wordList(words))
	return nil
}

// parts reads faults up to the closing parenthesis.
func (a *args) parts() Fault {
	parts := []Fault{a.sub()}
	for a.err == nil && a.peek().kind == comma {
		parts = append(parts, a.sub())
	}
	return closed(a, Any(parts...))
}

// closed reads the closing parenthesis behind the arguments of f.
func closed(a *args, f Fault) Fault {
	if a.err == nil {
		if t := a.lexer.next(); t.kind != closing {
			a.fail(t, "want )")
		}
	}
	return f
}

// arg reads the opening parenthesis or the comma before an argument, and then
// the argument's token. It returns false after an error.
func (a *args) arg(kind tokenKind, want string) (token, bool) {
	if !a.separator() {
		return token{}, false
	}
	t := a.lexer.next()
	if t.kind != kind {
		a.fail(t, "want "+want)
		return token{}, false
	}
	return t, true
}

func (a *args) separator() bool {
	if a.err != nil {
		return false
	}
	kind, sign := comma, ","
	if a.count == 0 {
		kind, sign = opening, "("
	}
	a.count++
	t := a.lexer.next()
	if t.kind != kind {
		a.fail(t, "want "+sign)
		return false
	}
	return true
}

func (a *args) fail(t token, want string) {
	if a.err == nil {
		a.err = a.errorf(t, "%s", want)
	}
}

// sub reads an argument that is a fault.
func (a *args) sub() Fault {
	if !a.separator() {
		return nil
	}
	var f Fault
	f, a.err = parseFault(a.lexer)
	return f
}

// oneOf reads the only argument of a fault that has a few fixed forms.
func (a *args) oneOf(forms map[string]Fault, want string) Fault {
	t, ok := a.arg(word, want)
	f, known := forms[t.text]
	if ok && !known {
		a.fail(t, "want "+want)
	}
	return closed(a, f)
}

func (a *args) op() Op {
	want := "an operation: one of " + wordList(allOps)
	t, ok := a.arg(word, want)
	if ok && onOp(t.text).valid() != nil {
		a.fail(t, "want "+want)
	}
	return Op(t.text)
}

func (a *args) quoted() string {
	const want = `a lock name in quotes, like "orders/42"`
	t, _ := a.arg(quotedText, want)
	return convert(a, t, want, strconv.Unquote)
}

func (a *args) duration() time.Duration {
	const want = "a duration like 250ms"
	t, _ := a.arg(word, want)
	return convert(a, t, want, time.ParseDuration)
}

func (a *args) integer() int {
	const want = "a whole number"
	t, _ := a.arg(word, want)
	return convert(a, t, want, strconv.Atoi)
}

func (a *args) seed() uint64 {
	const want = "a seed, a whole number from 0 on"
	t, _ := a.arg(word, want)
	return convert(a, t, want, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
}

func (a *args) number() float64 {
	const want = "a probability from 0 to 1"
	t, _ := a.arg(word, want)
	return convert(a, t, want, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}

// convert turns a token into a value.
func convert[V any](a *args, t token, want string, by func(string) (V, error)) V {
	var zero V
	if a.err != nil {
		return zero
	}
	v, err := by(t.text)
	if err != nil {
		a.fail(t, fmt.Sprintf("want %s", want))
		return zero
	}
	return v
}

// tokenKind distinguishes tokens.
type tokenKind uint8

const (
	endOfText tokenKind = iota
	opening
	closing
	comma
	// word is anything up to white space or one of ( ) , " and stands for
	// names and numbers alike: what it must be is known by its place.
	word
	quotedText
	// badQuote is a quoted text without an end or with a bad escape.
	badQuote
)

// token is one token and where it begins.
type token struct {
	kind tokenKind
	text string
	at   int
}

// String names the token in error texts.
func (t token) String() string {
	if t.kind == endOfText {
		return "the end"
	}
	return "`" + t.text + "`"
}

// lexer cuts an expression into tokens.
type lexer struct {
	text string
	at   int
}

const space = " \t\r\n"

// next returns the next token and goes on behind it.
func (l *lexer) next() token {
	t := l.peek()
	l.at = t.at + len(t.text)
	return t
}

// peek returns the next token.
func (l *lexer) peek() token {
	rest := strings.TrimLeft(l.text[l.at:], space)
	at := len(l.text) - len(rest)
	if rest == "" {
		return token{endOfText, "", at}
	}
	switch rest[0] {
	case '(':
		return token{opening, "(", at}
	case ')':
		return token{closing, ")", at}
	case ',':
		return token{comma, ",", at}
	case '"':
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return token{badQuote, rest, at}
		}
		return token{quotedText, quoted, at}
	}
	if end := strings.IndexAny(rest, `(),"`+space); end >= 0 {
		rest = rest[:end]
	}
	return token{word, rest, at}
}

// errorf returns an error about the token t, with its place: the number of the
// character counted from 1.
func (l *lexer) errorf(t token, format string, args ...any) error {
	place := len([]rune(l.text[:t.at])) + 1
	return fmt.Errorf("faultstore: fault at character %d, %s: %s", place, t, fmt.Sprintf(format, args...))
}
