// Package organism reads the configuration of a pipeline, which lists prompts,
// listeners and profiles in one YAML file (AP-12), and builds the pipeline from it.
// An [Organism] never changes; reloading a file makes a new one for the threads
// that begin afterwards.
package organism

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/thinker"
	"github.com/lightwork-market/lightwork/hashing"
)

// Organism is a checked configuration.
type Organism struct {
	Name string
	// Prompts are the named blocks of text, with files already read.
	Prompts   map[string]string
	Listeners []Listener
	Profiles  []Profile
	// Hash identifies the configuration: it covers the text of the file and of its
	// prompts.
	Hash hashing.Digest
}

// Listener declares a handler.
type Listener struct {
	// Name is unique.
	Name string
	// PayloadClass is the payload tag of its requests.
	PayloadClass string
	// Handler is the implementation: "AGENT/TOOL" for a tool of an agent process,
	// "agent" for a listener that thinks.
	Handler     string
	Description string
	// SemanticDescription, if set, is matched with needs in natural language.
	SemanticDescription string
	// Usage tells agents when and how to use the listener.
	Usage string
	// Peers are the listeners it may send to.
	Peers []string
	// Ports are the network ports that it needs.
	Ports []int
	// Agent configures a listener that thinks.
	Agent *thinker.Agent
	// Messages configures a listener that exchanges messages.
	Messages *Messages
	// Callable offers a thinking listener to others as a tool.
	Callable *Callable
}

// handlerAgent is the Handler of every thinking listener.
const handlerAgent = "agent"

// Callable offers a thinking listener as a tool (AP-15).
type Callable struct {
	Description string
	Parameters  []Parameter
	// Requires are the listeners that it needs to do its work.
	Requires []string
	// Profile, if set, is granted to the listener: it runs under this profile
	// instead of the part of the caller's profile that it needs.
	Profile string
}

// Parameter is one argument of a Callable; Type is a JSON Schema type.
type Parameter struct {
	Name, Type string
	Required   bool
}

// Profile lists the resources that a thread may reach.
type Profile struct {
	Name      string
	Listeners []string
	// Network are the ports that its listeners may use.
	Network   []int
	Retention pipeline.Retention
	// LinuxUser is the account its listeners' processes run under, if any.
	LinuxUser string
}

// hash covers the text of the file and of its prompt files.
func (o *Organism) hash(src []byte) hashing.Digest {
	all := slices.Clone(src)
	for _, label := range slices.Sorted(maps.Keys(o.Prompts)) {
		text := hashing.Bytes([]byte(o.Prompts[label]))
		all = append(all, text[:]...)
	}
	return hashing.Bytes(all)
}

// Listener returns the listener with this name.
func (o *Organism) Listener(name string) (Listener, bool) {
	i := slices.IndexFunc(o.Listeners, func(l Listener) bool { return l.Name == name })
	if i < 0 {
		return Listener{}, false
	}
	return o.Listeners[i], true
}

// Profile returns the profile with this name.
func (o *Organism) Profile(name string) (Profile, bool) {
	i := slices.IndexFunc(o.Profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return o.Profiles[i], true
}

// problem is an invalid value, with its path in the file.
type problem struct {
	path string // YAMLPath: $.listeners[2].peers
	why  string
}

func (p *problem) Error() string { return p.path + ": " + p.why }

func bad(path, format string, args ...any) error {
	return &problem{path, fmt.Sprintf(format, args...)}
}

// modelName is the handler of the language model, which only thinking listeners may
// send to.
const modelName = "model"

// check makes the checks that concern several fields. The pipeline checks names,
// tags and wildcards when it is built.
func (o *Organism) check() []error {
	var errs []error
	names := map[string]bool{modelName: true}
	for i, l := range o.Listeners {
		at := fmt.Sprintf("$.listeners[%d]", i)
		if names[l.Name] {
			errs = append(errs, bad(at+".name", "%q is taken", l.Name))
		}
		names[l.Name] = true
		errs = append(errs, o.checkListener(at, l))
	}

	profiles := map[string]bool{}
	for i, p := range o.Profiles {
		at := fmt.Sprintf("$.profiles.%s", p.Name)
		if profiles[p.Name] {
			errs = append(errs, bad(at, "%q is defined twice", p.Name))
		}
		profiles[p.Name] = true
		errs = append(errs, o.checkProfile(at, o.Profiles[i]))
	}

	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

func (o *Organism) checkListener(at string, l Listener) error {
	switch {
	case l.Name == "":
		return bad(at+".name", "is missing")
	case l.PayloadClass == "" && l.Messages == nil:
		return bad(at+".payload_class", "is missing")
	case isReserved(l.PayloadClass):
		return bad(at+".payload_class", "%q is reserved for the node", l.PayloadClass)
	case l.Description == "":
		return bad(at+".description", "is missing")
	case l.Handler == handlerAgent && l.Agent == nil:
		return bad(at+".handler", `"agent" needs an agent block`)
	case l.Handler != handlerAgent && l.Agent != nil:
		return bad(at+".agent", "is for the handler %q only", handlerAgent)
	case l.Handler != handlerAgent && !strings.Contains(l.Handler, "/"):
		return bad(at+".handler", "must be AGENT/TOOL, or %q", handlerAgent)
	case l.Callable != nil && l.Agent == nil:
		return bad(at+".callable", "is for the handler %q only", handlerAgent)
	}

	for j, peer := range l.Peers {
		if peer == modelName {
			return bad(fmt.Sprintf("%s.peers[%d]", at, j), "agents reach the model without naming it as a peer")
		}
		if _, ok := o.Listener(peer); !ok {
			return bad(fmt.Sprintf("%s.peers[%d]", at, j), "there is no listener %q", peer)
		}
	}

	for j, port := range l.Ports {
		if port < 1 || port > 65535 {
			return bad(fmt.Sprintf("%s.ports[%d]", at, j), "%d is not a port", port)
		}
	}

	if l.Agent != nil {
		if err := o.checkAgent(at+".agent", *l.Agent); err != nil {
			return err
		}
	}

	if l.Messages != nil {
		return o.checkMessages(at+".messages", l)
	}
	if l.Callable != nil {
		return o.checkCallable(at+".callable", *l.Callable)
	}

	return nil
}

// isReserved reports tags with a fixed meaning: messages, questions to the model,
// and results, which serve as evidence.
func isReserved(tag string) bool {
	return strings.HasPrefix(tag, message.TagPrefix) || strings.HasSuffix(tag, resultSuffix) ||
		slices.Contains([]string{thinker.TagAnswer, thinker.TagRequest, thinker.TagResponse, pipeline.TagError, pipeline.TagAck}, tag)
}

func (o *Organism) checkAgent(at string, a thinker.Agent) error {
	switch {
	case a.Model == "":
		return bad(at+".model", "is missing")
	case a.MaxTokens < 1:
		return bad(at+".max_tokens", "must be 1 or more")
	case a.MaxIterations < 1:
		return bad(at+".max_iterations", "must be 1 or more")
	}

	if _, err := o.Prompt(a.Prompt); err != nil {
		return bad(at+".prompt", "%v", err)
	}
	return nil
}

var errNoPrompt = errors.New("is empty")

// Prompt joins the blocks named in an expression "a & b" with newlines (AP-11.3.1).
func (o *Organism) Prompt(expression string) (string, error) {
	if strings.TrimSpace(expression) == "" {
		return "", errNoPrompt
	}

	var blocks []string
	for label := range strings.SplitSeq(expression, "&") {
		label = strings.TrimSpace(label)
		text, ok := o.Prompts[label]
		if !ok {
			return "", fmt.Errorf("there is no prompt %q", label)
		}
		blocks = append(blocks, text)
	}
	return strings.Join(blocks, "\n"), nil
}

func (o *Organism) checkCallable(at string, c Callable) error {
	if c.Description == "" {
		return bad(at+".description", "is missing")
	}

	seen := map[string]bool{}
	for i, p := range c.Parameters {
		place := fmt.Sprintf("%s.parameters[%d]", at, i)
		switch {
		case p.Name == "" || seen[p.Name]:
			return bad(place+".name", "is required and must be unique")
		case !slices.Contains([]string{"string", "integer", "number", "boolean", "object", "array"}, p.Type):
			return bad(place+".type", "%q is not a JSON Schema type", p.Type)
		}
		seen[p.Name] = true
	}

	for i, name := range c.Requires {
		if _, ok := o.Listener(name); !ok {
			return bad(fmt.Sprintf("%s.requires[%d]", at, i), "there is no listener %q", name)
		}
	}

	if _, ok := o.Profile(c.Profile); c.Profile != "" && !ok {
		return bad(at+".profile", "there is no profile %q", c.Profile)
	}
	return nil
}

func (o *Organism) checkProfile(at string, p Profile) error {
	for i, name := range p.Listeners {
		place := fmt.Sprintf("%s.listeners[%d]", at, i)
		l, ok := o.Listener(name)
		if !ok {
			return bad(place, "there is no listener %q", name)
		}

		for _, port := range l.Ports {
			if !slices.Contains(p.Network, port) {
				return bad(place, "%s needs port %d, which the profile's network does not have", name, port)
			}
		}

		if l.Callable == nil || l.Callable.Profile != "" {
			continue
		}

		for _, need := range l.Callable.Requires {
			if !slices.Contains(p.Listeners, need) {
				return bad(place, "%s requires %s, which the profile does not have", name, need)
			}
		}
	}

	return nil
}
