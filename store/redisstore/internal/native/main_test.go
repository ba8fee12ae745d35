// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"os"
	"testing"

	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
