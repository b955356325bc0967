// Bodies and their commitments: h = SHA-256("forum/body/1" || 0x00 || salt || length || body).

import { concatBytes, toHex } from "verify-page/bytes.js";
import { sha256 } from "verify-page/sha256.js";

export interface Body {
  content: Uint8Array;
  salt: string;
}

const SALT = /^[0-9a-f]{64}$/;
const DOMAIN = new TextEncoder().encode("forum/body/1\0");

export function textOf(body: Body): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(body.content);
}

/** The digest of a body, computed by this browser. Throws if the salt is none. */
export function digestOf({ content, salt }: Body): string {
  // With a salt of another length, a part of a body could pass for the whole.
  if (!SALT.test(salt)) throw new Error("The server gave a malformed salt for this text.");
  const saltBytes = Uint8Array.from(salt.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  const length = new DataView(new ArrayBuffer(8));
  length.setBigUint64(0, BigInt(content.length));
  const message = concatBytes(DOMAIN, saltBytes, new Uint8Array(length.buffer), content);
  return toHex(sha256(message));
}
