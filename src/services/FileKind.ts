/** Kinds of files that are not text, told from their first bytes. Pure. */
import { type Survey, startsWith } from "./TextSurvey.ts"

const ascii = (text: string): ReadonlyArray<number> => Array.from(text, (character) => character.charCodeAt(0))

const kinds: ReadonlyArray<{ readonly mimeType: string; readonly starts: ReadonlyArray<number>; readonly at8?: string }> = [
  { mimeType: "image/png", starts: [0x89, ...ascii("PNG\r\n"), 0x1a, 0x0a] },
  { mimeType: "image/jpeg", starts: [0xff, 0xd8, 0xff] },
  { mimeType: "image/gif", starts: ascii("GIF87a") },
  { mimeType: "image/gif", starts: ascii("GIF89a") },
  { mimeType: "image/webp", starts: ascii("RIFF"), at8: "WEBP" },
  { mimeType: "application/pdf", starts: ascii("%PDF-") },
  { mimeType: "application/zip", starts: [...ascii("PK"), 3, 4] },
  { mimeType: "application/gzip", starts: [0x1f, 0x8b] },
  { mimeType: "application/x-elf", starts: [0x7f, ...ascii("ELF")] },
  { mimeType: "application/wasm", starts: [0, ...ascii("asm")] },
  { mimeType: "application/vnd.sqlite3", starts: ascii("SQLite format 3") },
]

/** The MIME type of what a survey saw. Only kinds whose first bytes tell for certain are named. */
export const mimeTypeOf = ({ head, format }: Survey): string => {
  if (format === "utf-8") return "text/plain"
  if (format === "utf-16le" || format === "utf-16be") return `text/plain; charset=${format}`
  const kind = kinds.find(({ starts, at8 }) => startsWith(head, starts) && (at8 === undefined || startsWith(head.subarray(8), ascii(at8))))
  return kind?.mimeType ?? "application/octet-stream"
}
