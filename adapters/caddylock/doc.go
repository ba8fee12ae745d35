// SPDX-License-Identifier: Apache-2.0

// Package caddylock is a module of Caddy: it puts locks of fencelock before any other storage
// module, so that one of several Caddy servers orders a certificate and the others load it.
//
//	{
//		storage fencelock {
//			url {env.FENCELOCK_URL}
//			storage file_system {
//				root /mnt/certificates
//			}
//		}
//	}
//
// The storage that is named inside keeps the certificates; its own locks are not used. Many
// storage modules have a lock that does nothing, or one that stays after a crash. A storage
// that every server has for itself needs no lock and does not become shared by one.
//
// Package certmagiclock has the locks and says what happens when a server dies or a lock is
// lost. While the store does not answer, Caddy does not start and refuses a new configuration.
// The stores are separate modules: a Caddy is built with those that its URLs name.
package caddylock
