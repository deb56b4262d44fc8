const OFFER = /\nupgrade:/i
const NAME_END = /(?<=\nupgrade)(?=:)/gi
const LONGEST_PART = '\nupgrade'.length

/**
 * Renames the field `Upgrade` in the heads of a connection, so that Node's parser never reads an offer to upgrade. A
 * server may ignore an offer (RFC 9110, section 7.8), but Node's parser hides every error in the input that follows one,
 * up to the end of the next head: malformed input would get no response, and its connection would stay open.
 */
export class OfferFilter {
  /**
   * The last characters so far, because a field name may be split between two segments. A head that follows another begins
   * with a request line, never with a field.
   */
  #tail = ''

  /** @param bytes the next bytes of a head, not beyond its end */
  filter(bytes: Buffer): Buffer {
    const tail = this.#tail
    const text = tail + bytes.toString('latin1')
    this.#tail = text.slice(-LONGEST_PART)
    if (!OFFER.test(text)) return bytes
    return Buffer.from(text.replaceAll(NAME_END, '-ignored').slice(tail.length), 'latin1')
  }
}
