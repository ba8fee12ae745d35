// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/fencelock/fencelock/internal/figure"
)

// kept prints the figures of the second matrix as it is kept in a document.
func kept(args []string) error {
	if len(args) != 1 {
		return errors.New("want the document with the matrix: torture kept FILE")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	ran, failed, err := tallied(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w; write it with make torture-lossy", args[0], err)
	}
	figure.Print("torture-lossy-cells", ran, figure.AtLeast(80)) // as many as make torture-lossy asks for
	figure.Print("torture-lossy-failed", failed, figure.Exactly(0))
	if failed > 0 {
		return fmt.Errorf("%d cells failed", failed)
	}
	return nil
}

var tally = regexp.MustCompile(`(?s)<!-- lossy -->.*?: (\d+) cells run, of which .*? and (\d+) FAILED\..*?<!-- /lossy -->`)

// tallied reads how many cells of the kept matrix ran and how many of them failed.
func tallied(text string) (ran, failed int, err error) {
	m := tally.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, errors.New("it has no result of the second matrix")
	}
	ran, err = strconv.Atoi(m[1])
	failed, err2 := strconv.Atoi(m[2])
	return ran, failed, errors.Join(err, err2)
}
