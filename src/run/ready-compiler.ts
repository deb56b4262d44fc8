import { setFlagsFromString } from 'node:v8'

/**
 * Of a place in the code that objects of more than four shapes have passed V8 no longer knows which, and what it compiles
 * from then on looks each property up in a table. More than that pass the code of Node and undici which all sockets,
 * streams and headers share: which start came to know the right four decided how dear a request was for good.
 */
const TELL_SHAPES_APART = '--max-valid-polymorphic-map-count=24'

/**
 * A request passes many small functions of Node, undici and our own, of which V8 puts no more than 920 bytes of bytecode
 * into one that is hot, and none of more than 460. With about twice as much a forwarded request costs a twentieth less.
 */
const INLINE_MORE = '--max-inlined-bytecode-size=1000'
const INLINE_MORE_TOGETHER = '--max-inlined-bytecode-size-cumulative=2000'

/** What V8's compiler is told of a program that does one thing all day. */
export const ALL_DAY = [TELL_SHAPES_APART, INLINE_MORE, INLINE_MORE_TOGETHER]

/**
 * Before the first socket: what a place has forgotten it does not learn again. Not before the modules are loaded: what V8
 * keeps compiled of Node's own was compiled without these, and would be compiled anew, which takes some 40 ms of a start.
 */
export function readyCompiler(): void {
  for (const flag of ALL_DAY) setFlagsFromString(flag)
}
