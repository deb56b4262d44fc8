// Bare @fastify/reply-from in Fastify without a logger: no auth, all headers pass.
import replyFrom from '@fastify/reply-from'
import Fastify from 'fastify'

const [port, upstream = ''] = process.argv.slice(2)
const app = Fastify({ logger: false })
app.register(replyFrom, { base: upstream, undici: { connections: 128 } })
app.get('/*', (request, reply) => reply.from(request.url))
await app.listen({ port: Number(port), host: '127.0.0.1' })
process.stdout.write('listening\n')
