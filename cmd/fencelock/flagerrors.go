// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError is the error of a flag that is unknown or has a wrong value. The texts of the
// library that reads flags quote functions of Go and suggest nothing.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return usage("unknown flag --%s%s", unknown.GetSpecifiedName(), didYouMean("--"+unknown.GetSpecifiedName(), flagNames(cmd)...))
	case errors.As(err, &value) && takes[value.GetFlag().Value.Type()] != "":
		return usage("--%s %s: it takes %s", value.GetFlag().Name, value.GetValue(), takes[value.GetFlag().Value.Type()])
	}
	return usage("%w", err)
}

// takes has what the values of flags look like, by the type of the flag.
var takes = map[string]string{
	"duration": "a time with its unit, such as 500ms, 30s or 1h30m",
	"int":      "a whole number",
	"int64":    "a whole number",
	"bool":     "true or false",
}

// flagNames are the flags that a user may have meant.
func flagNames(cmd *cobra.Command) (names []string) {
	for _, set := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
	}
	return names
}

// helpForMisspelledTopics makes fencelock help fail for a topic that does not exist. By
// default it prints the help of the program, and its exit code is 0.
func helpForMisspelledTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return
	}
	help.Args = func(_ *cobra.Command, args []string) error {
		if cmd, _, err := root.Find(args); len(args) > 0 && (err != nil || cmd == root) {
			return usage("there is no help on %q%s; fencelock --help lists the commands and topics",
				strings.Join(args, " "), didYouMean(args[0], commandNames(root)...))
		}
		return nil
	}
}

// didYouMean returns ` (did you mean "namespace"?)` with the closest known word, or "".
func didYouMean(word string, known ...string) string {
	if meant := driver.Closest(word, known...); meant != "" {
		return fmt.Sprintf(" (did you mean %q?)", meant)
	}
	return ""
}
