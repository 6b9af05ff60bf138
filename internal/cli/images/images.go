// Package images has the commands about the sandbox and the images that it starts.
package images

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox/images"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
)

// Cmd is lightwork sandbox.
type Cmd struct {
	Images imagesCmd `cmd:"" help:"Root file systems that jobs may name (provider docker)."`
}

type imagesCmd struct {
	Add  imagesAddCmd  `cmd:"" help:"Register a folder or a tar of a root file system, as docker export writes it."`
	List imagesListCmd `cmd:"" help:"List what is registered."`
}

type imagesAddCmd struct {
	From string `arg:"" help:"A folder, a tar or a tar.gz." type:"existing"`
	JSON bool   `help:"Print JSON."`
}

// Run copies the tree into the store and prints its digest.
func (c imagesAddCmd) Run(s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	digest, err := images.Add(conf.ImageDir(), c.From)
	if err != nil {
		return advice.Hint(err, "docker export CONTAINER > image.tar writes a root file system; docker save writes layers, which are not taken")
	}
	if c.JSON {
		return app.PrintJSON(s.Out, map[string]string{"digest": digest.String()})
	}

	fmt.Fprintln(s.Out, digest)
	fmt.Fprintln(s.Err, "lightwork: a provider that runs takes it up when it is started again")
	return nil
}

type imagesListCmd struct {
	JSON bool `help:"Print JSON."`
}

// imageView is an image as --json shows it.
type imageView struct {
	Digest string    `json:"digest"`
	Bytes  int64     `json:"bytes"`
	Files  int       `json:"files"`
	Added  time.Time `json:"added_at"`
}

// Run lists the store.
func (c imagesListCmd) Run(s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	list, err := images.List(conf.ImageDir())
	if err != nil {
		return err
	}
	views := []imageView{}
	for _, i := range list {
		views = append(views, imageView{Digest: i.Digest.String(), Bytes: i.Bytes, Files: i.Files, Added: i.Added})
	}
	if c.JSON {
		return app.PrintJSON(s.Out, views)
	}
	w := tabwriter.NewWriter(s.Out, 2, 8, 2, ' ', 0)
	fmt.Fprintln(w, "DIGEST\tADDED\tFILES\tBYTES")
	for _, v := range views {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", v.Digest, v.Added.Local().Format(time.DateTime), v.Files, v.Bytes)
	}
	return w.Flush()
}
