/** One directive: its name, and its value as a quoted text or as a token. */
export const DIRECTIVE = /([^\s,=]+)(?:\s*=\s*(?:"([^"]*)"|([^\s,]*)))?/g
/** Each of them lets a shared cache keep the answer to an authorised request (RFC 9111, section 3.5). */
const SHARING: ReadonlySet<string> = new Set(['public', 's-maxage', 'must-revalidate', 'proxy-revalidate'])
/** Said to shared caches alone, so of no use beside `private`. */
const SHARED_ONLY: ReadonlySet<string> = new Set(['public', 's-maxage', 'proxy-revalidate'])

/**
 * Every answer is one key's own: no shared cache may give it to another. What an upstream says more strictly stays.
 * @param said the upstream's field; a list where it came more than once
 */
export function privateCacheControl(said: string | string[] | undefined): string {
  if (said === undefined) return 'private'
  const text = String(said)
  const directives = text.match(DIRECTIVE) ?? []
  const names = directives.map(nameOf)
  const restricted = names.includes('no-store') || directives.some(isPrivate)
  const loosening = restricted ? SHARED_ONLY : SHARING
  const loose = names.some(name => loosening.has(name)) || (!restricted && names.includes('private'))
  if (directives.length > 0 && !loose) return text
  const rest = directives.filter(
    directive => !SHARED_ONLY.has(nameOf(directive)) && nameOf(directive) !== 'private',
  )
  return ['private', ...rest].join(', ')
}

/** `private="field"` keeps only that field from shared caches: not what is meant here. */
function isPrivate(directive: string): boolean {
  return directive.toLowerCase() === 'private'
}

function nameOf(directive: string): string {
  return (directive.split('=', 1)[0] ?? '').trim().toLowerCase()
}
