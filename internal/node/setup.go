package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/relay"
)

// WriteSetup makes keys (never over old ones) and a configuration that works
// with them, keeps a configuration that is there, and names what it wrote.
func WriteSetup(dir string, set config.Setup) (made []string, err error) {
	file := filepath.Join(dir, config.DefaultFile)
	_, err = os.Lstat(file)
	keep := err == nil && !set.Force
	var conf *config.Config
	var text []byte
	if keep {
		conf, err = config.Load(file)
	} else {
		if text, err = set.Text(); err != nil {
			return nil, err
		}
		conf, err = config.Parse(text, file)
	}

	if err != nil {
		return nil, err
	}
	if made, err = makeSecrets(dir, conf, set.Keys); err != nil {
		return made, err
	}
	if keep {
		return made, nil
	}

	switch err := os.Rename(file, file+".old"); {
	case err == nil:
		made = append(made, file+".old (what "+file+" was)")
	case !errors.Is(err, fs.ErrNotExist):
		return made, err
	}

	return append(made, file), os.WriteFile(file, text, 0o600)
}

// makeSecrets makes the files that the configuration names and that are not
// there, with their folders.
func makeSecrets(dir string, c *config.Config, list map[string]string) (made []string, err error) {
	type secret struct {
		file string
		make func(string) error
	}
	want := []secret{
		{c.Identity.ProviderKeyFile, keys.KeyMaker(c, "provider", list["provider"])},
		{c.Identity.BuyerKeyFile, keys.KeyMaker(c, "buyer", list["buyer"])},
		{c.Identity.RootSecretFile, func(path string) error { return newRootSecret(c, path) }},
	}

	folders := []string{dir}
	for _, w := range []config.Wallet{c.Provider.Wallet, c.Buyer.Wallet} {
		switch w.Backend {
		case "play":
			want = append(want, secret{w.Play.TokenFile, wallets.NewTokenFile})
		case "cashu":
			want = append(want, secret{w.Cashu.SeedFile, wallets.NewSeedFile})
		case "lnd", config.BackendOnchain: // where the operator puts its files
			folders = append(folders, filepath.Dir(c.Path(w.LND.MacaroonFile)))
		}
	}

	for _, s := range want {
		folders = append(folders, filepath.Dir(c.Path(s.file)))
	}

	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}

	for _, s := range want {
		_, err := os.Lstat(c.Path(s.file))
		if !errors.Is(err, fs.ErrNotExist) || s.file == "" {
			continue
		}
		if err := s.make(c.Path(s.file)); err != nil {
			return made, err
		}

		name := s.file
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		made = append(made, name)
	}

	return made, nil
}

// newRootSecret makes the preimage secret of a new node. Beside a database it
// would be the wrong one: payments that are under way could not be settled.
func newRootSecret(c *config.Config, path string) error {
	db := filepath.Join(c.DataDir("provider"), store.FileName)
	if _, err := os.Stat(db); err == nil {
		return advice.Usage("restore it from your backup; only if that is lost and no payment is under way, move "+c.DataDir("provider")+" away and run "+advice.SetUp+" again",
			"%s is missing and %s needs the old one", path, db)
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return relay.WriteKeyFile(path, hex.EncodeToString(secret[:]))
}
