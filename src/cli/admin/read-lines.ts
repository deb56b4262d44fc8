/**
 * The lines of a text, however long it is. Of a line longer than `maxLength`, no more than a part is read, which is longer
 * too, and it is the last one.
 */
export async function* readLines(text: AsyncIterable<string>, maxLength: number): AsyncGenerator<string> {
  let rest = ''
  for await (const part of text) {
    const [first = '', ...others] = part.split('\n')
    rest += first
    for (const line of others) {
      yield rest
      rest = line
    }
    if (rest.length > maxLength) break
  }
  if (rest !== '') yield rest
}
