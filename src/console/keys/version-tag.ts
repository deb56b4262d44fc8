import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, invalidField } from '../platform/http/api-error.ts'

/** The entity tag of a key (RFC 9110, section 8.8.3): its version, which its edits must name. */
export function setVersionTag(reply: FastifyReply, { version }: { readonly version: number }): void {
  void reply.header('etag', versionTag(version))
}

export function versionTag(version: number): string {
  return `"${version}"`
}

/** @returns the versions that If-Match names */
export function readIfMatch({ headers }: FastifyRequest): AcceptedVersions {
  const sent = headers['if-match']
  if (sent === undefined) {
    throw new ApiError(
      'precondition_required',
      'Send If-Match with the version of the key that you have read, such as If-Match: "3"',
      {},
      'If-Match',
    )
  }
  const versions = parseIfMatch(sent)
  if (versions === null)
    throw invalidField('If-Match', 'a version in quotes, such as "3", a list of them, or *')
  return versions
}

/** Which versions of a key an edit may change; `any` for `*`. */
type AcceptedVersions = 'any' | readonly number[]

/** One entity tag and what separates it from the next (RFC 9110, sections 8.8.3 and 5.6.1): its text, which may hold commas. */
const TAG = /[ \t]*(?:(?:W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y

/** A version, also with what servers append that compress a response: `"3-gzip"` of Apache, `"3;br"`. */
const VERSION = /^([1-9]\d{0,9})(?:(?:--?|;)(?:gzip|br|zstd|deflate))?$/

/**
 * Reads If-Match (RFC 9110, section 13.1.1). Proxies that compress make a tag weak, `W/"3"`: it counts as the version that
 * the console sent, since a version names one state of the key and not the bytes of a response.
 * @returns null if it is no list of entity tags; tags that are no versions match none
 */
export function parseIfMatch(text: string): AcceptedVersions | null {
  if (text.trim() === '*') return 'any'
  const tags: string[] = []
  TAG.lastIndex = 0
  while (TAG.lastIndex < text.length) {
    const found = TAG.exec(text)
    if (found === null) return null
    if (found[1] !== undefined) tags.push(found[1])
  }
  if (tags.length === 0) return null
  return tags.flatMap(tag => VERSION.exec(tag)?.[1] ?? []).map(Number)
}
