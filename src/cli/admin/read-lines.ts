const LINE_FEED = 10

/**
 * The lines of some bytes, however many there are. Of a line longer than `maxLength` bytes, no more than a part is read, which
 * is longer too, and it is the last one.
 */
export async function* readLines(
  parts: AsyncIterable<Uint8Array>,
  maxLength: number,
): AsyncGenerator<Uint8Array> {
  let rest: Uint8Array[] = []
  let length = 0
  for await (const part of parts) {
    let start = 0
    for (let end = part.indexOf(LINE_FEED); end !== -1; end = part.indexOf(LINE_FEED, start)) {
      yield Buffer.concat([...rest, part.subarray(start, end)])
      rest = []
      length = 0
      start = end + 1
    }
    if (start === part.length) continue
    rest.push(part.subarray(start))
    length += part.length - start
    if (length > maxLength) break
  }
  if (length > 0) yield Buffer.concat(rest)
}
