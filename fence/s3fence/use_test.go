// SPDX-License-Identifier: Apache-2.0

package s3fence_test

import (
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
)

func TestExamples(t *testing.T) {
	servers.Example(t, Example, "S3_ENDPOINT", startServer(t).Endpoint, "replaces something: false\nreplaces something: true\nstale: true\n")
}
