// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"io"
	"os"
	"testing"
)

// Example runs an example that needs a server, and compares what it prints. The example
// finds the server's URL in an environment variable. It has no Output comment, because go
// test cannot skip an example where the server is not installed.
//
// What an example prints is captured by replacing os.Stdout, so the test must not be
// parallel; t.Setenv makes sure of that.
func Example(t *testing.T, example func(), variable, url, want string) {
	t.Helper()
	t.Setenv(variable, url)
	if got := printed(t, example); got != want {
		t.Errorf("the example printed %q, want %q", got, want)
	}
}

// printed returns what f prints.
func printed(t *testing.T, f func()) string {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(out)
		text <- string(all)
	}()
	stdout := os.Stdout
	os.Stdout = in
	func() {
		defer func() { os.Stdout = stdout }()
		f()
	}()
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	return <-text
}
