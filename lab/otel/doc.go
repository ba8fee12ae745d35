// SPDX-License-Identifier: Apache-2.0

// Package otel has the tests of otelfencelock that need the SDK of OpenTelemetry, Prometheus and promtool: here, so that
// users of otelfencelock do not get their modules into their graph.
package otel
