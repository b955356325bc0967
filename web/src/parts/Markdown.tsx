import { useMemo, useState } from "preact/hooks";
import { type Block, type Inline, isFormatted, parseMarkdown, safeTarget } from "../model/markdown";
import "./Markdown.css";
import { SafeText, TextBlock } from "./Text";

/** Longer texts are shown as they are: they are data rather than something to read. */
const MAX_CHARACTERS = 100_000;

/** What an agent or a user has written, formatted; one press shows it as it was written. */
export function Markdown({ text, label }: { text: string; label: string }) {
  const [isPlain, setPlain] = useState(text.length > MAX_CHARACTERS);
  const blocks = useMemo(() => (isPlain ? [] : parseMarkdown(text)), [text, isPlain]);
  return (
    <div class="markdown">
      {isPlain ? (
        <TextBlock text={text} label={label} whole />
      ) : (
        // biome-ignore lint/a11y/useSemanticElements: a text is no form
        <div role="group" aria-label={label}>
          <Blocks blocks={blocks} />
        </div>
      )}
      {(isPlain || isFormatted(blocks)) && (
        <button type="button" class="plain small" onClick={() => setPlain(!isPlain)}>
          {isPlain ? "Show it formatted" : "Show it as it was written"}
        </button>
      )}
    </div>
  );
}

function Blocks({ blocks }: { blocks: Block[] }) {
  return (
    <>
      {blocks.map((block, number) => (
        <OneBlock key={number} block={block} />
      ))}
    </>
  );
}

function OneBlock({ block }: { block: Block }) {
  switch (block.type) {
    // No heading of the page: a text from elsewhere has no place in its outline.
    case "heading":
      return (
        <p class={`md-heading level-${block.level}`}>
          <Inlines parts={block.children} />
        </p>
      );
    case "paragraph":
      return (
        <p>
          <Inlines parts={block.children} />
        </p>
      );
    case "code":
      return (
        <div class="md-code">
          {block.name && (
            <span class="small quiet">
              <SafeText text={block.name} />
            </span>
          )}
          <pre>
            <SafeText text={block.text} />
          </pre>
        </div>
      );
    case "quote":
      return (
        <blockquote>
          <Blocks blocks={block.blocks} />
        </blockquote>
      );
    case "list":
      return <List block={block} />;
    case "table":
      return <Table block={block} />;
    case "rule":
      return <hr />;
  }
}

function List({ block }: { block: Extract<Block, { type: "list" }> }) {
  const items = block.items.map(({ number, blocks }, key) => (
    <li key={key} {...(number === null ? {} : { value: number })}>
      <Blocks blocks={blocks} />
    </li>
  ));
  return block.items[0]?.number === null ? <ul>{items}</ul> : <ol>{items}</ol>;
}

function Table({ block }: { block: Extract<Block, { type: "table" }> }) {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            {block.head.map((cell, key) => (
              <th key={key}>
                <Inlines parts={cell} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {block.rows.map((row, key) => (
            <tr key={key}>
              {row.map((cell, column) => (
                <td key={column}>
                  <Inlines parts={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Inlines({ parts }: { parts: Inline[] }) {
  return (
    <>
      {parts.map((part, number) => (
        <OneInline key={number} part={part} />
      ))}
    </>
  );
}

function OneInline({ part }: { part: Inline }) {
  switch (part.type) {
    case "text":
      return <SafeText text={part.text} />;
    case "code":
      return (
        <code>
          <SafeText text={part.text} />
        </code>
      );
    case "strong":
      return (
        <strong>
          <Inlines parts={part.children} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Inlines parts={part.children} />
        </em>
      );
    case "del":
      return (
        <del>
          <Inlines parts={part.children} />
        </del>
      );
    case "link":
      return <Link part={part} />;
  }
}

/** The words of a link, and where it leads: the address itself is what can be clicked. */
function Link({ part }: { part: Extract<Inline, { type: "link" }> }) {
  const target = safeTarget(part.target);
  return (
    <>
      <Inlines parts={part.children} /> (
      {target ? (
        <a href={target} target="_blank" rel="noopener noreferrer nofollow">
          <SafeText text={part.target} />
        </a>
      ) : (
        <SafeText text={part.target} />
      )}
      )
    </>
  );
}
