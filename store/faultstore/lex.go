// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"fmt"
	"strconv"
	"strings"
)

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
