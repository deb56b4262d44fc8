import Fastify from 'fastify'
import { registerAssets } from '../../../src/console/platform/html/layout.ts'
import { designPage } from './design-page.ts'

/** Serves the page of the design with the style sheet and the script of the console. @param port 0 for a free one */
export async function startDesign(port = 0) {
  const app = Fastify()
  registerAssets(app)
  app.get('/', async (_, reply) => reply.type('text/html; charset=utf-8').send(designPage()))
  const origin = await app.listen({ host: '127.0.0.1', port })
  return { origin, stop: () => app.close() }
}

if (import.meta.main) {
  const { origin } = await startDesign(Number(process.env['PORT'] ?? 0))
  process.stdout.write(`The design is at ${origin}/. Press Ctrl-C to end.\n`)
}
