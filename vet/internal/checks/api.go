// SPDX-License-Identifier: Apache-2.0

// Package checks has the analyzers of package vet. What they take for a lock is a table, [API]: package vet
// gives them that of fencelock, and the search for false alarms gives them types of the same shape that
// programs use which know nothing of fencelock.
package checks

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// An API is what the checks take for locks. Functions are named as [types.Func.FullName] names them,
// types by import path and name.
type API struct {
	// Paths are the packages that a checked package must be able to name; others are skipped.
	Paths []string
	// Leases are the types of leases, with the methods that end one.
	Leases map[string][]string
	// Acquire are the functions whose first result is a lease that the caller has to end.
	Acquire []string
	// Locks are the functions that lock one name, for the search for locks that wait for themselves.
	Locks map[string]Lock
	// Clients are the constructors of clients, and Close the methods that end a client with all its leases.
	Clients, Close []string
	// Tokens are the methods that return the token of a lease.
	Tokens []string
	// AnyScope takes every function with a context for one that runs under a lock, not only
	// those with a lease.
	AnyScope bool
}

// A Lock says where a function has the name of its lock, and whether it shares the lock.
type Lock struct {
	Name   int  // the argument with the name, or -1: the receiver is the lock
	Shared bool // as a reader
	Try    bool // without waiting
}

const path = "github.com/fencelock/fencelock"

// Fencelock is the table of fencelock itself.
var Fencelock = &API{
	Paths:  []string{path},
	Leases: map[string][]string{path + ".Lease": {"Unlock"}, path + ".LeaseSet": {"Unlock"}},
	Acquire: []string{
		"(*" + path + ".Mutex).Lock", "(*" + path + ".Mutex).TryLock",
		"(*" + path + ".RWMutex).Lock", "(*" + path + ".RWMutex).TryLock",
		"(*" + path + ".RWMutex).RLock", "(*" + path + ".RWMutex).TryRLock",
		"(*" + path + ".Semaphore).Acquire", "(*" + path + ".Semaphore).TryAcquire",
		"(*" + path + ".Client).LockAll", "(*" + path + ".Client).TryLockAll",
	},
	Locks: map[string]Lock{
		"(*" + path + ".Client).Do":        {Name: 1},
		"(*" + path + ".Mutex).Do":         {Name: -1},
		"(*" + path + ".Mutex).Lock":       {Name: -1},
		"(*" + path + ".Mutex).TryLock":    {Name: -1, Try: true},
		"(*" + path + ".RWMutex).Do":       {Name: -1},
		"(*" + path + ".RWMutex).Lock":     {Name: -1},
		"(*" + path + ".RWMutex).TryLock":  {Name: -1, Try: true},
		"(*" + path + ".RWMutex).DoRead":   {Name: -1, Shared: true},
		"(*" + path + ".RWMutex).RLock":    {Name: -1, Shared: true},
		"(*" + path + ".RWMutex).TryRLock": {Name: -1, Shared: true, Try: true},
	},
	Clients: []string{path + ".New"},
	Close:   []string{"(*" + path + ".Client).Close"},
	Tokens:  []string{"(*" + path + ".Lease).Token"},
}

// named returns the import path and name of a type, or of what it points to.
func named(t types.Type) string {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	n, ok := t.(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return ""
	}
	return n.Obj().Pkg().Path() + "." + n.Obj().Name()
}

// isLease reports whether a value of that type is a lease.
func (a *API) isLease(t types.Type) bool { return t != nil && a.Leases[named(t)] != nil }

// ends reports whether a method of that name ends a lease of that type.
func (a *API) ends(t types.Type, method string) bool {
	return slices.Contains(a.Leases[named(t)], method)
}

func isContext(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "context" && n.Obj().Name() == "Context"
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

// callee returns the function that a call names, or nil for a call of a value.
func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	fn, _ := typeutil.Callee(info, call).(*types.Func)
	if fn != nil {
		fn = fn.Origin()
	}
	return fn
}

// calls reports whether a call is one of the functions.
func calls(info *types.Info, call *ast.CallExpr, names []string) bool {
	fn := callee(info, call)
	return fn != nil && slices.Contains(names, fn.FullName())
}

// calleePath returns the import path of the function that a call names, "" if there is none.
func calleePath(fn *types.Func) string {
	if fn == nil || fn.Pkg() == nil {
		return ""
	}
	return fn.Pkg().Path()
}

// signature returns that of the called function or value.
func signature(info *types.Info, call *ast.CallExpr) *types.Signature {
	tv, ok := info.Types[call.Fun]
	if !ok || tv.IsType() || tv.Type == nil {
		return nil
	}
	sig, _ := tv.Type.Underlying().(*types.Signature)
	return sig
}

// near reports whether a package can name one of the paths: it or what it imports does.
func (a *API) near(pkg *types.Package) bool {
	if slices.Contains(a.Paths, pkg.Path()) {
		return true
	}
	for _, p := range pkg.Imports() {
		if slices.Contains(a.Paths, p.Path()) {
			return true
		}
		// A wrapper's user need not import what the wrapper returns.
		for _, q := range p.Imports() {
			if slices.Contains(a.Paths, q.Path()) {
				return true
			}
		}
	}
	return a.AnyScope
}

// prints reports whether a function only shows its arguments.
func prints(fn *types.Func) bool {
	switch p := calleePath(fn); p {
	case "log/slog":
		return fn.Name() != "New" && fn.Name() != "SetDefault"
	case "log", "fmt": // not log.New and log.SetOutput, which keep what they get
		return hasPrefix(fn.Name(), "Print", "Fprint", "Fatal", "Panic")
	case "testing":
		return hasPrefix(fn.Name(), "Log", "Error", "Fatal")
	default:
		return logs(fn)
	}
}

// logs guesses by the name of a method that it is one of a logger.
func logs(fn *types.Func) bool {
	if fn == nil {
		return false
	}
	sig := fn.Signature()
	if sig.Recv() == nil || !strings.Contains(strings.ToLower(named(sig.Recv().Type())), "log") {
		return false
	}
	return hasPrefix(fn.Name(), "Log", "Debug", "Info", "Warn", "Error", "Print", "Trace", "Fatal")
}

func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}
