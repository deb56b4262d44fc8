import type { HttpProxy } from '../domain/proxy.ts'

/**
 * A call failed at the proxy. The message says what to do, and never holds the proxy's user and password. It has no cause:
 * what is logged is the innermost cause.
 */
export class ProxyError extends Error {
  readonly code: string

  constructor(message: string, code: string) {
    super(message)
    this.code = code
  }
}

/** @param status of the proxy's response in place of a tunnel */
export function refusedByProxy(proxy: HttpProxy, target: string, status: number): ProxyError {
  const text = `the proxy ${proxy.url.origin} of ${proxy.setting} responded with ${status} for ${target}: ${adviceFor(proxy, status)}`
  return new ProxyError(text, `PROXY_${status}`)
}

export function proxyUnreachable({ url, setting }: HttpProxy, code: string): ProxyError {
  const text = `the proxy ${url.origin} of ${setting} cannot be reached (${code}): check its address, and that it runs`
  return new ProxyError(text, 'PROXY_UNREACHABLE')
}

function adviceFor({ url, setting }: HttpProxy, status: number): string {
  if (status === 407) {
    const login = url.username === '' ? 'put user and password into the address' : 'check user and password'
    return `${login} of ${setting}`
  }
  if (status >= 500) return 'the proxy does not reach it; check that it resolves the name and may connect'
  return 'allow it at the proxy, or name the host in outgoing.noProxy (NO_PROXY)'
}
