// SPDX-License-Identifier: Apache-2.0

// Package vet measures the analyzers of module vet: how many of the misuses in testdata they find, what they report in
// this repository and in the code of others, and what they cost beside go vet. The tests of the analyzers themselves
// are in module vet; the programs here were written apart from those, and are not changed to fit the analyzers.
package vet
