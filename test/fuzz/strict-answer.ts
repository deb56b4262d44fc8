/** Header fields as received, in order. */
export type Fields = readonly (readonly [name: string, value: string])[]

export interface AnswerHead {
  readonly minor: 0 | 1
  readonly status: number
  readonly fields: Fields
}

/** Result of parsing bytes that may be a response, the beginning of one, or neither. */
export type Reading =
  | { readonly kind: 'whole'; readonly head: AnswerHead; readonly body: Buffer; readonly end: number }
  /** More bytes could complete it. `head` is null while the head is incomplete. */
  | { readonly kind: 'partial'; readonly head: AnswerHead | null; readonly body: Buffer }
  /** Only the end of the connection delimits the body. */
  | { readonly kind: 'until_close'; readonly head: AnswerHead; readonly body: Buffer }
  /** No further bytes could make it a response. */
  | { readonly kind: 'broken'; readonly why: string; readonly head: AnswerHead | null; readonly body: Buffer }

/** The reason phrase has no meaning: except for line ends, its content is ignored. */
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\n]*)?$/
const FIELD_LINE =
  /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)[\t ]*$/
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const QUOTED = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t \\x21-\\x7e\\x80-\\xff])*"'
/** Unknown chunk extensions are ignored (RFC 9112, section 7.1.1). One without a value must not hide the end of a line. */
const CHUNK_LINE = new RegExp(
  `^([0-9A-Fa-f]{1,16})(?:[\\t ]*;[\\t ]*${TOKEN}(?:[\\t ]*=[\\t ]*(?:${TOKEN}|${QUOTED})?)?)*$`,
)
/** Not allowed in a trailer (RFC 9110, section 6.5.1). */
const FRAMING = new Set(['content-length', 'transfer-encoding'])
const NOTHING = Buffer.alloc(0)

/**
 * Parses one response strictly by RFC 9112, without sharing code with any parser that the gateway uses: a second
 * opinion on where a response ends. Interim responses count as responses.
 */
export function readResponse(bytes: Buffer, start = 0): Reading {
  let from = start
  // Empty lines before a response are skipped, as before a request.
  while (bytes.toString('latin1', from, from + 2) === '\r\n') from += 2
  const headEnd = bytes.indexOf('\r\n\r\n', from)
  const read = readHead(bytes.toString('latin1', from, headEnd < 0 ? bytes.length : headEnd), headEnd >= 0)
  if (typeof read === 'string') return { kind: 'broken', why: read, head: null, body: NOTHING }
  if (read === null) return { kind: 'partial', head: null, body: NOTHING }
  return readBody(bytes, headEnd + 4, read)
}

export function valuesOf(fields: Fields, name: string): string[] {
  return fields.filter(([other]) => other.toLowerCase() === name).map(([, value]) => value)
}

/** @returns the error, or null if the head is incomplete and valid so far */
function readHead(text: string, whole: boolean): AnswerHead | string | null {
  const lines = text.split('\r\n')
  // The last line of an incomplete head may be truncated.
  if (!whole) lines.pop()
  const [statusLine, ...fieldLines] = lines
  if (statusLine === undefined) return null
  const [, minor, status] = STATUS_LINE.exec(statusLine) ?? []
  if (status === undefined) return 'status line'
  const fields: [string, string][] = []
  for (const line of fieldLines) {
    const [, name, value] = FIELD_LINE.exec(line) ?? []
    if (name === undefined || value === undefined) return 'field line'
    fields.push([name, value])
  }
  return whole ? { minor: minor === '1' ? 1 : 0, status: Number(status), fields } : null
}

function readBody(bytes: Buffer, start: number, head: AnswerHead): Reading {
  const codings = valuesOf(head.fields, 'transfer-encoding')
  const lengths = valuesOf(head.fields, 'content-length')
  const broken = (why: string): Reading => ({ kind: 'broken', why, head, body: NOTHING })
  if (codings.length > 0 && lengths.length > 0) return broken('length and coding')
  if (head.status < 200 || head.status === 204 || head.status === 304) {
    return { kind: 'whole', head, body: NOTHING, end: start }
  }
  if (codings.length > 0) {
    if (codings.length > 1 || codings[0]?.toLowerCase() !== 'chunked') return broken('coding')
    return head.minor === 1 ? readChunks(bytes, start, head) : broken('coding in HTTP/1.0')
  }
  if (lengths.length === 0) return { kind: 'until_close', head, body: bytes.subarray(start) }
  if (lengths.length > 1 || !/^\d{1,15}$/.test(lengths[0] ?? '')) return broken('length')
  const end = start + Number(lengths[0])
  if (end > bytes.length) return { kind: 'partial', head, body: bytes.subarray(start) }
  return { kind: 'whole', head, body: bytes.subarray(start, end), end }
}

function readChunks(bytes: Buffer, start: number, head: AnswerHead): Reading {
  const parts: Buffer[] = []
  const partial = (): Reading => ({ kind: 'partial', head, body: Buffer.concat(parts) })
  const broken = (why: string): Reading => ({ kind: 'broken', why, head, body: Buffer.concat(parts) })
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return partial()
    const [, size] = CHUNK_LINE.exec(bytes.toString('latin1', at, lineEnd)) ?? []
    if (size === undefined) return broken('chunk size')
    const from = lineEnd + 2
    const to = from + Number.parseInt(size, 16)
    if (to === from) {
      const end = endOfTrailers(bytes, from)
      if (end === 'broken') return broken('trailer')
      return end === null ? partial() : { kind: 'whole', head, body: Buffer.concat(parts), end }
    }
    parts.push(bytes.subarray(from, to))
    if (bytes.length < to + 2) return partial()
    if (bytes.toString('latin1', to, to + 2) !== '\r\n') return broken('end of a chunk')
    at = to + 2
  }
}

function endOfTrailers(bytes: Buffer, start: number): number | 'broken' | null {
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return null
    if (lineEnd === at) return at + 2
    const [, name] = FIELD_LINE.exec(bytes.toString('latin1', at, lineEnd)) ?? []
    if (name === undefined || FRAMING.has(name.toLowerCase())) return 'broken'
    at = lineEnd + 2
  }
}
