/** One directive: its name, and its value as a quoted string or as a token. */
export const DIRECTIVE = /([^\s,=]+)(?:\s*=\s*(?:"([^"]*)"|([^\s,]*)))?/g
/** Each lets a shared cache store the response to a request with `Authorization` (RFC 9111, section 3.5). */
const ALLOWS_SHARED_CACHE: ReadonlySet<string> = new Set([
  'public',
  's-maxage',
  'must-revalidate',
  'proxy-revalidate',
])
/** Directives for shared caches only, which have no effect beside `private`. */
const SHARED_ONLY: ReadonlySet<string> = new Set(['public', 's-maxage', 'proxy-revalidate'])

/**
 * Every response belongs to one key: no shared cache may store it. Stricter directives of the upstream stay.
 * @param field the upstream's `Cache-Control`; a list if it was sent more than once
 */
export function privateCacheControl(field: string | string[] | undefined): string {
  if (field === undefined) return 'private'
  const text = String(field)
  const directives = text.match(DIRECTIVE) ?? []
  const names = directives.map(nameOf)
  const isRestricted = names.includes('no-store') || directives.some(isPrivate)
  const removable = isRestricted ? SHARED_ONLY : ALLOWS_SHARED_CACHE
  const needsChange = names.some(name => removable.has(name)) || (!isRestricted && names.includes('private'))
  if (directives.length > 0 && !needsChange) return text
  const rest = directives.filter(
    directive => !SHARED_ONLY.has(nameOf(directive)) && nameOf(directive) !== 'private',
  )
  return ['private', ...rest].join(', ')
}

/** `private="field"` forbids storing that field only, so it does not count. */
function isPrivate(directive: string): boolean {
  return directive.toLowerCase() === 'private'
}

function nameOf(directive: string): string {
  return (directive.split('=', 1)[0] ?? '').trim().toLowerCase()
}
