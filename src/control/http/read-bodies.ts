import { parse as parseForm } from 'node:querystring'
import type { FastifyInstance } from 'fastify'
import { asError } from '../../observability/failure-log.ts'
import { readFormText, readJsonText } from './storable-text.ts'

/** JSON is the only type of body. An empty one counts as none. */
export function readJsonOnly(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (body.length === 0) return done(null, null)
    let text: string
    try {
      text = readJsonText(body)
    } catch (error) {
      // Thrown here, it would reach no error handler.
      return done(asError(error))
    }
    parse(request, text, done)
  })
}

/** Adds forms, whose number of fields the size of a body bounds. */
export function readForms(app: FastifyInstance): void {
  const options = { parseAs: 'buffer' } as const
  app.addContentTypeParser<Buffer>('application/x-www-form-urlencoded', options, (_, body, done) => {
    try {
      done(null, parseForm(readFormText(body), '&', '=', { maxKeys: 0 }))
    } catch (error) {
      done(asError(error))
    }
  })
}
