// SPDX-License-Identifier: Apache-2.0

// Package access decides who may see, take and force-unlock which locks.
//
// A Policy is read from a file with users. A user proves who it is by a token, of which the
// file has the hash, or by a client certificate that a certificate authority of the
// operator's choice signed. Each user has rights on names that begin with a prefix; a right
// that is not given is denied. Without a file there is one caller, Local, which may see.
package access
