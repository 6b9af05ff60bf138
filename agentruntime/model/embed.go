package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
)

// maxEmbedTexts bounds the texts of one call of Embed.
const maxEmbedTexts = 256

const maxDimensions = 16 << 10

// Embedding is the result of Embed.
type Embedding struct {
	Model string
	// Vectors has one vector for each text, in their order and all of the same
	// length. The endpoint may not have normalised them.
	Vectors [][]float32
	Usage   *chat.Usage // nil if the endpoint reports none
}

// Embed returns vectors for 1 to maxEmbedTexts texts. If model is empty, the
// configured one is used. Errors are those of [Client.Chat].
func (c *Client) Embed(ctx context.Context, model string, texts []string) (Embedding, error) {
	if model == "" {
		model = c.cfg.Model
	}
	if model == "" || len(texts) == 0 || len(texts) > maxEmbedTexts {
		return Embedding{}, fmt.Errorf("embed: needs a model and 1 to %d texts", maxEmbedTexts)
	}

	for _, t := range texts {
		if t == "" || !utf8.ValidString(t) {
			return Embedding{}, errors.New("embed: a text is empty or not UTF-8")
		}
	}

	body, err := json.Marshal(struct {
		Model  string   `json:"model"`
		Input  []string `json:"input"`
		Format string   `json:"encoding_format"`
	}{model, texts, "float"})
	if err != nil {
		return Embedding{}, fmt.Errorf("encode embedding request: %w", err)
	}
	var out Embedding
	_, err = c.ask(ctx, question{path: "/embeddings", body: body, read: func(a *answer) (err error) {
		out, err = readEmbedding(a, len(texts))
		return err
	}})
	if err != nil {
		return Embedding{}, err
	}
	if out.Model == "" {
		out.Model = model
	}
	return out, nil
}

func readEmbedding(a *answer, texts int) (Embedding, error) {
	doc, err := io.ReadAll(a.body)
	if err != nil {
		return Embedding{}, err
	}
	var e struct {
		Model string `json:"model"`
		Data  []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"` // a number out of range is a decoding error
		} `json:"data"`
		Usage *chat.Usage    `json:"usage"`
		Error *endpointError `json:"error"`
	}
	if err := decode(doc, &e); err != nil {
		return Embedding{}, err
	}
	if e.Error != nil {
		return Embedding{}, e.Error.unavailable()
	}
	if len(e.Data) != texts || len(e.Model) > chat.MaxNameBytes {
		return Embedding{}, badResponse("%d vectors for %d texts", len(e.Data), texts)
	}

	out := Embedding{Model: e.Model, Vectors: make([][]float32, texts), Usage: e.Usage}
	for _, d := range e.Data {
		n := len(d.Embedding)
		if n == 0 || n > maxDimensions || n != len(e.Data[0].Embedding) {
			return Embedding{}, badResponse("the vectors are empty or differ in length")
		}
		if d.Index < 0 || d.Index >= texts || out.Vectors[d.Index] != nil {
			return Embedding{}, badResponse("the vectors are out of order")
		}
		out.Vectors[d.Index] = d.Embedding
	}

	return out, nil
}
