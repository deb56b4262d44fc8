const MAX_LENGTH = 1024
/** Begins with one slash: two, or a slash and a backslash, would be the name of another host. */
const LOCAL_PATH = /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/
/** Somebody who comes back there would go round in a circle, or out again. */
const OF_SIGNING_IN = /^\/sign-(?:in|out)(?:[/?]|$)/

/**
 * A path of our own, as it came out of an address that anybody may have written.
 * @returns null for whatever a browser might take for another place
 */
export function localPath(text: unknown): string | null {
  if (typeof text !== 'string' || text.length > MAX_LENGTH || !LOCAL_PATH.test(text)) return null
  const { origin, pathname, search } = new URL(text, 'http://here.invalid')
  if (origin !== 'http://here.invalid' || pathname.startsWith('//') || OF_SIGNING_IN.test(pathname))
    return null
  return pathname + search
}

/** @param then where somebody was going; only a path of our own */
export function signInPath(then: string): string {
  return then === '/' ? '/sign-in' : `/sign-in?then=${encodeURIComponent(then)}`
}
