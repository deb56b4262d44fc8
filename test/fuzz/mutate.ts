/** A reproducible random generator: the same seed gives the same run (mulberry32, by its published constants). */
export function chance(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const TOKENS = [
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  ' ',
  '\t',
  '\0',
  ':',
  ';',
  '#',
  '?',
  '&',
  '=',
  '%2e',
  '%2f',
  '%5c',
  '%00',
  '..',
  '/',
  '//',
  '\\',
  '%',
  '%25',
  'ws_2',
  'ws_1',
  '/files',
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/2.0',
  'GET ',
  'POST ',
  'Host: gw\r\n',
  'Host: evil\r\n',
  'Content-Length: 5\r\n',
  'Content-Length: 0\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding: ,chunked\r\n',
  'Connection: close\r\n',
  'Connection: X-Postern-Workspace-Id\r\n',
  'Expect: 100-continue\r\n',
  'Upgrade: h2c\r\n',
  'X-Postern-Workspace-Id: ws_2\r\n',
  'Authorization: Bearer x\r\n',
  '5\r\nhello\r\n0\r\n\r\n',
  'limit=5',
  '\x80',
  '\xff',
  '\x0b',
  '\x7f',
  '0',
  '-1',
  '99999999999999999999',
]

/** One to four changes: a byte deleted, replaced or doubled, a part repeated or moved, a token inserted. */
export function mutate(bytes: string, random: () => number, tokens: readonly string[] = TOKENS): string {
  const at = (text: string) => Math.floor(random() * (text.length + 1))
  let mutated = bytes
  for (let round = 1 + Math.floor(random() * 4); round > 0; round--) {
    const [from, to] = [at(mutated), at(mutated)].sort((a, b) => a - b) as [number, number]
    const piece = mutated.slice(from, Math.min(to, from + 40))
    const token = tokens[Math.floor(random() * tokens.length)] ?? ''
    const kinds = [
      () => mutated.slice(0, from) + mutated.slice(from + 1),
      () =>
        mutated.slice(0, from) + String.fromCharCode(Math.floor(random() * 256)) + mutated.slice(from + 1),
      () => mutated.slice(0, from) + token + mutated.slice(from),
      () => mutated.slice(0, from) + token + mutated.slice(from + 1),
      () => mutated.slice(0, from) + piece + mutated.slice(from),
      () => mutated.slice(0, from) + mutated.slice(from + piece.length),
    ]
    mutated = (kinds[Math.floor(random() * kinds.length)] ?? (() => mutated))()
  }
  return mutated
}
