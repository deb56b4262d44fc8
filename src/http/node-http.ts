/**
 * Node's HTTP module. An `import` of it reads each of its exports, which loads the WebSocket client that Node brings, and fetch with it:
 * 13 MB, and a seventh of the processor time of a start.
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http')
