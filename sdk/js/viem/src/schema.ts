import type { Methods } from './rpc.ts';

type CornicheMethod = Extract<keyof Methods, `corniche_${string}`>;

/**
 * The `corniche_` methods as viem's `request` takes them: `createClient({ rpcSchema: rpcSchema<CornicheRpcSchema>(), … })`. Made from the
 * document that a node serves as `rpc_discover`.
 */
export type CornicheRpcSchema = {
  [M in CornicheMethod]: { Method: M; Parameters: Methods[M]['parameters']; ReturnType: Methods[M]['result'] };
}[CornicheMethod][];
