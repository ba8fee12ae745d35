// SPDX-License-Identifier: Apache-2.0

// Package articles runs the recipes of widely read Chinese articles about distributed
// locks on real servers, step by step, and shows where they fail: two clients hold one
// lock, or one releases the lock of the other. docs/zh-CN/from-the-articles.md links them.
//
// The recipes are written here as the articles have them, mistakes included. Nothing of
// fencelock takes part. Mistakes that need chance to show are in lab/torture.
package articles
