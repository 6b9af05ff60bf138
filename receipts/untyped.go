package receipts

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/schemas"
)

// MaxUntypedInputs is how many inputs an untyped request may have.
const MaxUntypedInputs = 16

// UntypedOf reads a request that names no schema, as an ordinary NIP-90 client
// sends it: its inputs are the prompt of a text generation, its params the
// sampling. Params that nobody here knows are passed over, as NIP-90 wants it.
// Errors wrap ErrInvalid.
func UntypedOf[Tag ~[]string](tags []Tag) (TypedRequest, error) {
	doc := map[string]any{}
	var prompt []string
	for _, tag := range tags {
		switch {
		case len(tag) >= 3 && tag[0] == "param" && isOneOf(tag[1], "schema", "schema_id", "job_type"):
			return TypedRequest{}, fmt.Errorf("%w: request names a schema", ErrInvalid)
		case len(tag) >= 3 && tag[0] == "param":
			if err := sampling(doc, tag[1], tag[2]); err != nil {
				return TypedRequest{}, err
			}
		case len(tag) >= 1 && tag[0] == "i":
			switch {
			case len(tag) < 2:
				return TypedRequest{}, fmt.Errorf("%w: tag i: an input has no content", ErrInvalid)
			case !isText(tag):
				return TypedRequest{}, fmt.Errorf("%w: tag i: an input of type %s is not taken here: send text", ErrInvalid, quoted(tag[2]))
			}
			prompt = append(prompt, tag[1])
		}
	}

	if len(prompt) == 0 || len(prompt) > MaxUntypedInputs {
		return TypedRequest{}, fmt.Errorf("%w: request has %d inputs, not 1 to %d", ErrInvalid, len(prompt), MaxUntypedInputs)
	}
	doc["prompt"] = strings.Join(prompt, "\n\n")
	input, err := json.Marshal(doc)
	if err != nil {
		return TypedRequest{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return TypedRequest{SchemaID: string(schemas.TextGeneration), Input: input}, nil
}

// sampling takes a param of NIP-90's text generation into the document.
func sampling(doc map[string]any, name, value string) error {
	form := fraction
	switch name {
	case "max_tokens", "seed":
		form = whole
	case "temperature", "top_p":
	default:
		return nil
	}

	if _, twice := doc[name]; twice {
		return fmt.Errorf("%w: tag param %s: it is there twice", ErrInvalid, name)
	}
	if !form.MatchString(value) {
		return fmt.Errorf("%w: tag param %s: %s is not a number", ErrInvalid, name, quoted(value))
	}

	doc[name] = json.Number(value)
	return nil
}

// How a sampling parameter is written.
var (
	whole    = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,15})$`)
	fraction = regexp.MustCompile(`^[0-9](\.[0-9]{1,9})?$`)
)

// UntypedTags are the tags of a text generation as any NIP-90 provider reads
// it: what UntypedOf reads back. A system prompt goes before the prompt.
func UntypedTags(r *schemas.TextRequest) [][]string {
	var tags [][]string
	if r.System != "" {
		tags = append(tags, []string{"i", r.System, "text"})
	}
	tags = append(tags, []string{"i", r.Prompt, "text"}, []string{"output", "text/plain"})
	param := func(name, value string) { tags = append(tags, []string{"param", name, value}) }
	if r.MaxTokens > 0 {
		param("max_tokens", strconv.FormatInt(r.MaxTokens, 10))
	}
	if r.Temperature != nil {
		param("temperature", strconv.FormatFloat(*r.Temperature, 'f', -1, 64))
	}
	if r.TopP != nil {
		param("top_p", strconv.FormatFloat(*r.TopP, 'f', -1, 64))
	}
	if r.Seed != nil {
		param("seed", strconv.FormatInt(*r.Seed, 10))
	}
	return tags
}
