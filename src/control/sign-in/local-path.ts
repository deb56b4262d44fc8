const MAX_LENGTH = 1024
/** Starts with one slash: two, or a slash and a backslash, would name another host. */
const LOCAL_PATH = /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/
/** Returning there would loop, or sign out again. */
const SIGN_IN_PATH = /^\/sign-(?:in|out)(?:[/?]|$)/

/**
 * Validates a return path from an untrusted URL, which rules out open redirects.
 * @returns null for anything a browser might resolve to another host
 */
export function localPath(text: unknown): string | null {
  if (typeof text !== 'string' || text.length > MAX_LENGTH || !LOCAL_PATH.test(text)) return null
  const { origin, pathname, search } = new URL(text, 'http://here.invalid')
  if (origin !== 'http://here.invalid' || pathname.startsWith('//') || SIGN_IN_PATH.test(pathname))
    return null
  return pathname + search
}

/** @param then the local path to return to */
export function signInPath(then: string): string {
  return then === '/' ? '/sign-in' : `/sign-in?then=${encodeURIComponent(then)}`
}
