package organism

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/thinker"
	"github.com/lightwork-market/lightwork/internal/yamlfile"
)

// Bounds of a configuration, in bytes.
const (
	maxFileBytes   = 1 << 20
	maxPromptBytes = 256 << 10
)

// Error is a mistake in a configuration, with its position in the file.
type Error struct {
	File         string
	Line, Column int // from 1
	Text         string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text) }

// document is the file as written.
type document struct {
	Organism  headDoc              `yaml:"organism"`
	Prompts   map[string]promptDoc `yaml:"prompts"`
	Listeners []listenerDoc        `yaml:"listeners"`
	Profiles  yaml.MapSlice        `yaml:"profiles"`
}

// headShape is shown to users who left the head out or wrote plain text.
const headShape = "write organism: {name: NAME}"

type headDoc struct {
	Name string `yaml:"name"`
}

// UnmarshalYAML explains the expected form if the head has another one.
func (h *headDoc) UnmarshalYAML(src []byte) error {
	var head struct {
		Name string `yaml:"name"`
	}
	if err := yaml.UnmarshalWithOptions(src, &head, yaml.Strict()); err != nil {
		return errors.New("is no mapping with a name; " + headShape)
	}
	h.Name = head.Name
	return nil
}

// promptDoc is a prompt given as text or as the name of a file.
type promptDoc struct{ text, file string }

// UnmarshalYAML accepts both forms.
func (p *promptDoc) UnmarshalYAML(src []byte) error {
	if err := yaml.Unmarshal(src, &p.text); err == nil {
		return nil
	}
	var ref struct {
		File string `yaml:"file"`
	}
	if err := yaml.UnmarshalWithOptions(src, &ref, yaml.Strict()); err != nil {
		return err
	}
	if ref.File == "" {
		return errors.New("a prompt is a text, or {file: NAME}")
	}

	p.file = ref.File
	return nil
}

type listenerDoc struct {
	Name                string         `yaml:"name"`
	PayloadClass        string         `yaml:"payload_class"`
	Handler             string         `yaml:"handler"`
	Description         string         `yaml:"description"`
	SemanticDescription string         `yaml:"semantic_description"`
	Usage               string         `yaml:"usage_instructions"`
	Peers               []string       `yaml:"peers"`
	Ports               []int          `yaml:"ports"`
	Agent               *thinker.Agent `yaml:"agent"`
	Messages            *Messages      `yaml:"messages"`
	Callable            *struct {
		Description string `yaml:"description"`
		Parameters  []struct {
			Name     string `yaml:"name"`
			Type     string `yaml:"type"`
			Required bool   `yaml:"required"`
		} `yaml:"parameters"`
		Requires []string `yaml:"requires"`
		Profile  string   `yaml:"profile"`
	} `yaml:"callable"`
}

type profileDoc struct {
	Listeners []string `yaml:"listeners"`
	Network   []int    `yaml:"network"`
	Journal   string   `yaml:"journal"`
	LinuxUser string   `yaml:"linux_user"`
}

// Load reads and checks a file. It reports all mistakes at once, each as an *Error,
// ordered by line.
func Load(path string) (*Organism, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	return Parse(src, path)
}

// Parse parses the contents of the file path. Prompt files are in its folder or
// below.
func Parse(src []byte, path string) (*Organism, error) {
	if len(src) > maxFileBytes {
		return nil, &Error{path, 1, 1, fmt.Sprintf("is larger than %d bytes", maxFileBytes)}
	}
	var d document
	if bad := yamlfile.Decode(src, &d); len(bad) > 0 {
		var all []*Error
		for _, b := range bad {
			all = append(all, &Error{path, b.Line, b.Column, b.Text})
		}
		return nil, joinErrors(all)
	}

	o, wrong := d.organism(filepath.Dir(path))
	if len(wrong) == 0 { // else consequences of these mistakes would be reported too
		o.Hash = o.hash(src)
		wrong = o.check()
	}

	var all []*Error
	for _, err := range wrong {
		if p := (*problem)(nil); errors.As(err, &p) {
			all = append(all, locate(src, path, p))
		} else {
			all = append(all, &Error{path, 1, 1, err.Error()})
		}
	}

	if len(all) > 0 {
		return nil, joinErrors(all)
	}
	return o, nil
}

// joinErrors joins all mistakes into one error, ordered by line.
func joinErrors(all []*Error) error {
	slices.SortStableFunc(all, func(a, b *Error) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	errs := make([]error, len(all))
	for i, e := range all {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// organism converts the document and returns its mistakes.
func (d *document) organism(dir string) (o *Organism, wrong []error) {
	o = &Organism{Name: d.Organism.Name, Prompts: map[string]string{}}
	if o.Name == "" {
		wrong = append(wrong, bad("$.organism.name", "is missing; "+headShape))
	}

	for label, p := range d.Prompts {
		text, err := p.read(dir)
		if err != nil {
			wrong = append(wrong, bad("$.prompts."+label, "%v", err))
		}
		if strings.ContainsAny(label, "& ") || label == "" {
			wrong = append(wrong, bad("$.prompts."+label, "a label must not contain & or a space"))
		}
		o.Prompts[label] = text
	}

	for _, l := range d.Listeners {
		o.Listeners = append(o.Listeners, l.listener())
	}

	for _, item := range d.Profiles {
		p, err := profile(item)
		if err != nil {
			wrong = append(wrong, err)
		}
		o.Profiles = append(o.Profiles, p)
	}

	return o, wrong
}

func (p promptDoc) read(dir string) (string, error) {
	text := p.text
	if p.file != "" {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", err
		}
		defer root.Close()

		f, err := root.Open(p.file)
		if err != nil {
			return "", err
		}
		defer f.Close()

		doc, err := io.ReadAll(io.LimitReader(f, maxPromptBytes+1))
		if err != nil {
			return "", err
		}
		text = string(doc)
	}

	if len(text) > maxPromptBytes || !utf8.ValidString(text) {
		return "", fmt.Errorf("is longer than %d bytes, or not UTF-8", maxPromptBytes)
	}
	return text, nil
}

func (l listenerDoc) listener() Listener {
	out := Listener{
		Name: l.Name, PayloadClass: l.PayloadClass, Handler: l.Handler, Description: l.Description,
		SemanticDescription: l.SemanticDescription, Usage: l.Usage, Peers: l.Peers, Ports: l.Ports, Agent: l.Agent, Messages: l.Messages,
	}
	if c := l.Callable; c != nil {
		out.Callable = &Callable{Description: c.Description, Requires: c.Requires, Profile: c.Profile}
		for _, p := range c.Parameters {
			out.Callable.Parameters = append(out.Callable.Parameters, Parameter{p.Name, p.Type, p.Required})
		}
	}
	return out
}

func profile(item yaml.MapItem) (Profile, error) {
	name := fmt.Sprint(item.Key)
	at := "$.profiles." + name
	if m, ok := item.Value.(map[string]any); ok {
		if s, ok := m["listeners"].(string); ok {
			return Profile{}, bad(at+".listeners", "%q: %v: name each one", s, pipeline.ErrWildcard)
		}
	}

	doc, err := yaml.Marshal(item.Value)
	if err != nil {
		return Profile{}, bad(at, "%v", err)
	}
	var d profileDoc
	if err := yaml.UnmarshalWithOptions(doc, &d, yaml.Strict()); err != nil {
		return Profile{}, bad(at, "%s", strings.SplitN(yaml.FormatError(err, false, false), "\n", 2)[0])
	}
	retention, err := parseRetention(d.Journal)
	if err != nil {
		return Profile{}, bad(at+".journal", "%v", err)
	}
	return Profile{Name: name, Listeners: slices.Clone(d.Listeners), Network: d.Network, Retention: retention, LinuxUser: d.LinuxUser}, nil
}

// parseRetention reads retain_forever, prune_on_delivery or retain_days(N).
func parseRetention(s string) (pipeline.Retention, error) {
	switch s {
	case "", string(pipeline.RetainForever):
		return pipeline.Retention{Policy: pipeline.RetainForever}, nil
	case string(pipeline.PruneOnDelivery):
		return pipeline.Retention{Policy: pipeline.PruneOnDelivery}, nil
	}

	if n, ok := strings.CutPrefix(s, string(pipeline.RetainDays)+"("); ok && strings.HasSuffix(n, ")") {
		if days, err := strconv.Atoi(strings.TrimSuffix(n, ")")); err == nil && days >= 1 && days <= 36500 {
			return pipeline.Retention{Policy: pipeline.RetainDays, Days: days}, nil
		}
	}
	return pipeline.Retention{}, fmt.Errorf("%q is none of retain_forever, prune_on_delivery, retain_days(N)", s)
}

// locate returns the position of a problem, or of the nearest enclosing value.
func locate(src []byte, file string, p *problem) *Error {
	at := yamlfile.At(src, p.path, strings.TrimPrefix(p.path, "$.")+": "+p.why)
	return &Error{file, at.Line, at.Column, at.Text}
}
