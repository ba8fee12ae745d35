// SPDX-License-Identifier: Apache-2.0

package caddylock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/certmagiclock"
	"github.com/fencelock/fencelock/driver"
)

func init() { caddy.RegisterModule(new(Storage)) }

var (
	_ caddy.StorageConverter = (*Storage)(nil)
	_ caddy.Provisioner      = (*Storage)(nil)
	_ caddy.CleanerUpper     = (*Storage)(nil)
	_ caddyfile.Unmarshaler  = (*Storage)(nil)
)

// Storage is the module caddy.storage.fencelock.
type Storage struct {
	// URL is that of the store that keeps the locks, such as redis://localhost:6379. It may
	// have placeholders, such as {env.FENCELOCK_URL}.
	URL string `json:"url"`
	// TTL is how long the locks of a server that died stay taken; 15s if it is 0.
	TTL caddy.Duration `json:"ttl,omitempty"`
	// Prefix is what names of locks begin with; "certmagic/" if it is empty.
	Prefix string `json:"prefix,omitempty"`
	// StorageRaw is the storage that keeps the certificates, which all servers share.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=caddy.storage inline_key=module"`

	store   driver.OpenedStore
	client  *fencelock.Client
	storage certmagic.Storage
}

// CaddyModule returns the name of the module.
func (*Storage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.storage.fencelock", New: func() caddy.Module { return new(Storage) }}
}

// Provision opens the store, and the storage that keeps the certificates.
func (s *Storage) Provision(ctx caddy.Context) error {
	url := caddy.NewReplacer().ReplaceAll(s.URL, "")
	if url == "" {
		return errors.New("caddylock: the URL of the store is empty; set url, and the variable if it names one")
	}
	if s.StorageRaw == nil {
		return errors.New("caddylock: there is no storage for certificates; name the one that all servers share: storage file_system { root /mnt/certificates }")
	}
	module, err := ctx.LoadModule(s, "StorageRaw")
	if err != nil {
		return fmt.Errorf("caddylock: storage: %w", err)
	}
	converter, ok := module.(caddy.StorageConverter)
	if !ok {
		return fmt.Errorf("caddylock: storage: %T is not a storage of Caddy", module)
	}
	inner, err := converter.CertMagicStorage()
	if err != nil {
		return fmt.Errorf("caddylock: storage: %w", err)
	}
	if s.store, err = fencelock.OpenStore(ctx, url); err != nil {
		return fmt.Errorf("caddylock: url: %w", err)
	}
	if s.client, err = fencelock.New(s.store, &fencelock.Options{TTL: time.Duration(s.TTL), Logger: ctx.Slogger()}); err != nil {
		return fmt.Errorf("caddylock: %w", err)
	}
	s.storage = certmagiclock.New[certmagic.KeyInfo](inner, s.client, &certmagiclock.Options{Prefix: s.Prefix})
	return nil
}

// CertMagicStorage returns the storage with its locks.
func (s *Storage) CertMagicStorage() (certmagic.Storage, error) { return s.storage, nil }

// Cleanup gives back the locks that are held, and closes the store.
func (s *Storage) Cleanup() error {
	var err error
	if s.client != nil {
		err = s.client.Close(context.Background())
	}
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	return err
}

// UnmarshalCaddyfile reads the block of the global option storage.
func (s *Storage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the module
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := s.option(d); err != nil {
			return err
		}
	}
	return nil
}

// option reads one option of the block.
func (s *Storage) option(d *caddyfile.Dispenser) error {
	name := d.Val()
	if !d.NextArg() {
		return d.ArgErr()
	}
	switch name {
	case "url":
		s.URL = d.Val()
	case "prefix":
		s.Prefix = d.Val()
	case "ttl":
		ttl, err := caddy.ParseDuration(d.Val())
		if err != nil {
			return d.Errf("ttl: %v", err)
		}
		s.TTL = caddy.Duration(ttl)
	case "storage":
		module := d.Val()
		inner, err := caddyfile.UnmarshalModule(d, "caddy.storage."+module)
		if err != nil {
			return err
		}
		s.StorageRaw = caddyconfig.JSONModuleObject(inner, "module", module, nil)
		return nil
	default:
		return d.Errf("unknown option %q; there are url, ttl, prefix and storage", name)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}
