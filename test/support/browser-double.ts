import { stringify } from 'node:querystring'
import type { FastifyInstance } from 'fastify'

export interface Visit {
  /** Address of the last page, after every redirect. */
  readonly url: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** Every address visited, the last one included. */
  readonly way: readonly string[]
}

interface Cookie {
  readonly value: string
  readonly attributes: string
}

const MAX_REDIRECTS = 12

/**
 * The parts of a browser that sign-in needs: cookies by host, redirects, forms. Requests go to the given consoles in
 * turn, or over the network if there are none.
 */
export class BrowserDouble {
  readonly origin: string
  readonly #consoles: readonly FastifyInstance[]
  #turn = 0
  readonly cookies = new Map<string, Map<string, Cookie>>()

  constructor(origin: string, ...consoles: readonly FastifyInstance[]) {
    this.origin = origin
    this.#consoles = consoles
  }

  /** @param until stops before following a redirect to an address that starts with this */
  async visit(path: string, until?: string): Promise<Visit> {
    let url = new URL(path, this.origin)
    const way = [url.href]
    for (let redirects = 0; redirects < MAX_REDIRECTS; redirects++) {
      const answer = await this.send('GET', url.href)
      const { location } = answer.headers
      if (location === undefined) return { ...answer, way }
      url = new URL(location, url)
      way.push(url.href)
      if (until !== undefined && url.href.startsWith(until)) return { ...answer, url: url.href, way }
    }
    throw new Error(`More than ${MAX_REDIRECTS} redirects: ${way.join(' ')}`)
  }

  /** Submits a form from the current page, as a browser would. */
  async post(
    path: string,
    fields: Readonly<Record<string, string | readonly string[]>>,
    headers = {},
  ): Promise<Visit> {
    const payload = stringify(fields)
    const own = { origin: this.origin, 'sec-fetch-site': 'same-origin' }
    const type = { 'content-type': 'application/x-www-form-urlencoded' }
    return this.send('POST', new URL(path, this.origin).href, { ...own, ...type, ...headers }, payload)
  }

  /** Sends one request with the cookies of its host. */
  async send(
    method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH',
    href: string,
    more: Readonly<Record<string, string>> = {},
    payload?: string,
  ): Promise<Visit> {
    const url = new URL(href, this.origin)
    const cookie = [...this.#jar(url)].map(([name, { value }]) => `${name}=${value}`).join('; ')
    const headers = { host: url.host, ...(cookie === '' ? {} : { cookie }), ...more }
    const own = url.origin === this.origin && this.#consoles.length > 0
    const answer = await (own
      ? this.#inject(method, url, headers, payload)
      : this.#fetch(method, url, headers, payload))
    for (const line of answer.cookies) this.#keep(url, line)
    return { ...answer, url: url.href, way: [url.href] }
  }

  /** Target of the first link on a page that starts with the given text. */
  static linkIn({ text }: Visit, start: string): string {
    const links = [...text.matchAll(/href="([^"]*)"/g)].map(([, href = '']) => unescaped(href))
    return links.find(href => href.startsWith(start)) ?? ''
  }

  /** CSRF token of the form on a page. */
  static csrfTokenIn({ text }: Visit): string {
    return /name="_csrf" value="([^"]*)"/.exec(text)?.[1] ?? ''
  }

  cookie(name: string): Cookie | undefined {
    return this.#jar(new URL(this.origin)).get(name)
  }

  setCookie(name: string, value: string): void {
    this.#jar(new URL(this.origin)).set(name, { value, attributes: '' })
  }

  async #inject(
    method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH',
    url: URL,
    headers: Record<string, string>,
    payload?: string,
  ) {
    const app = this.#consoles[this.#turn++ % this.#consoles.length]
    if (app === undefined) throw new Error('This browser has no console to send requests to')
    const body = payload === undefined ? {} : { payload }
    const response = await app.inject({ method, url: url.pathname + url.search, headers, ...body })
    const cookies = [response.headers['set-cookie'] ?? []].flat()
    return {
      status: response.statusCode,
      // Fastify's header values are strings, except for the cookies, which are read above.
      headers: response.headers as Record<string, string>,
      text: response.payload,
      cookies,
    }
  }

  async #fetch(method: string, url: URL, headers: Record<string, string>, payload?: string) {
    const body = payload === undefined ? {} : { body: payload }
    const response = await fetch(url, { method, headers, redirect: 'manual', ...body })
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      text: await response.text(),
      cookies: response.headers.getSetCookie(),
    }
  }

  #jar({ host }: URL): Map<string, Cookie> {
    const jar = this.cookies.get(host) ?? new Map<string, Cookie>()
    this.cookies.set(host, jar)
    return jar
  }

  #keep(url: URL, line: string): void {
    const [pair = '', ...attributes] = line.split('; ')
    const at = pair.indexOf('=')
    const [name, value] = [pair.slice(0, at), pair.slice(at + 1)]
    const gone = value === '' || attributes.some(text => /^Max-Age=0$/i.test(text))
    if (gone) this.#jar(url).delete(name)
    else this.#jar(url).set(name, { value, attributes: attributes.join('; ') })
  }
}

export function unescaped(text: string): string {
  return text
    .replace(/&#x([0-9A-F]+);/gi, (_, digits: string) => String.fromCodePoint(Number.parseInt(digits, 16)))
    .replaceAll('&amp;', '&')
}
