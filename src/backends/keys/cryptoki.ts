/**
 * Functions of a PKCS#11 module through koffi (Cryptoki 2.40, https://docs.oasis-open.org/pkcs11/pkcs11-base/v2.40/). All that may talk to
 * the device run on a thread of the runtime, so they block no event loop. Structures are laid out here: 64-bit words, as on Linux.
 */

import type { KoffiFunc } from 'koffi';
import { loadOptional } from '../../base/optional-packages.ts';
import { decodeUtf8 } from '../../base/text/utf8.ts';
import { later } from '../data/cluster-pool/librados.ts';

/** A call that the module answered with an error code. */
export class Pkcs11Error extends Error {
  readonly code: number;

  constructor(call: string, code: number) {
    super(`${call} was answered with CKR 0x${code.toString(16)}`);
    this.code = code;
  }
}

export const codes = {
  ok: 0x0,
  generalError: 0x5,
  functionFailed: 0x6,
  encryptedDataInvalid: 0x40,
  encryptedDataLength: 0x41,
  aeadDecryptFailed: 0x42,
  keySizeRange: 0x62,
  keyTypeInconsistent: 0x63,
  keyFunctionNotPermitted: 0x68,
  pinIncorrect: 0xa0,
  pinInvalid: 0xa1,
  pinLength: 0xa2,
  pinLocked: 0xa4,
  alreadyLoggedIn: 0x100,
  alreadyInitialized: 0x191,
} as const;

/** What CK_TOKEN_INFO says of the PIN: it was wrong at least once; one more wrong try locks it; it is locked. */
export const pinFlags = { countLow: 0x1_0000n, finalTry: 0x2_0000n, locked: 0x4_0000n } as const;

const serialSession = 4;
const normalUser = 1;
/** CKS_RO_USER_FUNCTIONS: the state of a read-only session whose process has logged in. */
const loggedIn = 1n;
const secretKey = 4n;
const attribute = { objectClass: 0n, label: 3n, id: 0x102n } as const;
const aesGcm = 0x1087n;
const tagBits = 128n;
const osLocking = 2n;
const objectsMax = 64;
const labelAt = 0;
const labelBytes = 32;
/** After the label, the manufacturer (32), the model (16) and the serial number (16). */
const flagsAt = 96;
const tokenInfoBytes = 256;
const idBytesMax = 64;

type Call = KoffiFunc<(...args: unknown[]) => number | bigint>;
type Name = keyof typeof signatures;

const p = 'void *';
const word = 'uint64';
/** The functions that are called: their places in the list of the module (CK_FUNCTION_LIST), and what they take. */
const signatures = {
  C_Initialize: { at: 0, takes: [p] },
  C_Finalize: { at: 1, takes: [p] },
  C_GetSlotList: { at: 4, takes: ['uint8', p, p] },
  C_GetTokenInfo: { at: 6, takes: [word, p] },
  C_OpenSession: { at: 12, takes: [word, word, p, p, p] },
  C_CloseSession: { at: 13, takes: [word] },
  C_GetSessionInfo: { at: 15, takes: [word, p] },
  C_Login: { at: 18, takes: [word, word, p, word] },
  C_GetAttributeValue: { at: 24, takes: [word, word, p, word] },
  C_FindObjectsInit: { at: 26, takes: [word, p, word] },
  C_FindObjects: { at: 27, takes: [word, p, word, p] },
  C_FindObjectsFinal: { at: 28, takes: [word] },
  C_EncryptInit: { at: 29, takes: [word, p, word] },
  C_Encrypt: { at: 30, takes: [word, p, word, p, p] },
  C_DecryptInit: { at: 33, takes: [word, p, word] },
  C_Decrypt: { at: 34, takes: [word, p, word, p, p] },
} as const;
/** The list begins with a CK_VERSION, padded to 8 bytes. */
const listedFrom = 8;
const listedFunctions = 35;

/** C reads and writes these on another thread, so they must stay where they are. */
const words = (...values: readonly bigint[]): BigUint64Array<ArrayBuffer> => {
  const made = new BigUint64Array(new ArrayBuffer(8 * Math.max(1, values.length)));
  made.set(values);
  return made;
};
const still = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => {
  const made = new Uint8Array(new ArrayBuffer(Math.max(1, bytes.length)));
  made.set(bytes);
  return made;
};

export interface FoundKey {
  readonly handle: bigint;
  /** CKA_ID. */
  readonly id: Uint8Array;
}

interface Sealing {
  readonly key: bigint;
  readonly iv: Uint8Array;
  readonly aad: Uint8Array;
}

export interface Cryptoki {
  initialize(): Promise<void>;
  finalize(): Promise<void>;
  /** The slot of the token with a label; undefined where it is not present. */
  findSlot(label: string): Promise<bigint | undefined>;
  /** CKF_… of a token, such as `pinFlags`. */
  tokenFlags(slot: bigint): Promise<bigint>;
  openSession(slot: bigint): Promise<bigint>;
  closeSession(session: bigint): Promise<void>;
  /** Sessions of one process share the log-in to a token. */
  isLoggedIn(session: bigint): Promise<boolean>;
  login(session: bigint, pin: Uint8Array): Promise<void>;
  findKeys(session: bigint, label: string): Promise<readonly FoundKey[]>;
  encrypt(session: bigint, sealing: Sealing, plain: Uint8Array): Promise<Uint8Array>;
  decrypt(session: bigint, sealing: Sealing, sealed: Uint8Array): Promise<Uint8Array>;
}

export async function loadCryptoki(path: string): Promise<Cryptoki> {
  const koffi = await loadOptional(['koffi'], () => import('koffi'));
  const functions = listFunctions(koffi, path);
  /** Arguments are held until the call has ended, and with them the memory that they point to. */
  const ask = async (
    name: Name,
    args: readonly unknown[],
    accepted: readonly number[] = [],
  ): Promise<void> => {
    const code = Number(await later(functions.get(name) as Call, ...args));
    if (code !== codes.ok && !accepted.includes(code)) throw new Pkcs11Error(name, code);
  };
  return build({ ask, address: (memory) => koffi.address(memory) });
}

/** Finds the functions through C_GetFunctionList, the only function that the standard requires a module to export. */
function listFunctions(koffi: typeof import('koffi'), path: string): ReadonlyMap<string, Call> {
  const readList = koffi
    .load(path)
    .func('C_GetFunctionList', word, [koffi.out(koffi.pointer(p))]) as KoffiFunc<
    (list: [unknown]) => number | bigint
  >;
  const list: [unknown] = [null];
  const code = Number(readList(list));
  if (code !== codes.ok) throw new Pkcs11Error('C_GetFunctionList', code);
  const pointers = koffi.decode(list[0], listedFrom, koffi.array(p, listedFunctions)) as unknown[];
  const found = Object.entries(signatures).map(
    ([name, { at, takes }]) =>
      [name, koffi.decode(pointers[at], koffi.proto(word, [...takes])) as Call] as const,
  );
  // Pointers do not keep the module loaded; a function that was found by name does.
  return new Map([...found, ['C_GetFunctionList', readList as Call]]);
}

type Ask = (name: Name, args: readonly unknown[], accepted?: readonly number[]) => Promise<void>;
type Address = (memory: Uint8Array | BigUint64Array) => bigint;

interface Native {
  readonly ask: Ask;
  readonly address: Address;
}

async function withGcm(
  { ask, address }: Native,
  name: 'Encrypt' | 'Decrypt',
  session: bigint,
  {
    sealing,
    bytes,
    outMax,
  }: { readonly sealing: Sealing; readonly bytes: Uint8Array; readonly outMax: number },
): Promise<Uint8Array> {
  const [iv, aad, input] = [still(sealing.iv), still(sealing.aad), still(bytes)];
  const parameters = words(
    address(iv),
    BigInt(sealing.iv.length),
    BigInt(sealing.iv.length * 8),
    address(aad),
    BigInt(sealing.aad.length),
    tagBits,
  );
  const mechanism = words(aesGcm, address(parameters), BigInt(parameters.byteLength));
  await ask(`C_${name}Init`, [session, mechanism, sealing.key]);
  const out = still(new Uint8Array(outMax));
  const length = words(BigInt(outMax));
  await ask(`C_${name}`, [session, input, BigInt(bytes.length), out, length]);
  // Used until here, so that the memory behind the addresses is not collected before.
  void [iv, aad, parameters];
  return out.subarray(0, Number(length[0]));
}

async function findKeys(
  { ask, address }: Native,
  session: bigint,
  label: string,
): Promise<readonly FoundKey[]> {
  const [kind, name] = [words(secretKey), still(new TextEncoder().encode(label))];
  const template = words(
    ...[attribute.objectClass, address(kind), 8n],
    ...[attribute.label, address(name), BigInt(name.length)],
  );
  const handles = words(...Array<bigint>(objectsMax).fill(0n));
  const count = words(0n);
  await ask('C_FindObjectsInit', [session, template, 2n]);
  try {
    await ask('C_FindObjects', [session, handles, BigInt(objectsMax), count]);
  } finally {
    await ask('C_FindObjectsFinal', [session]);
  }
  void [kind, name];
  const keys: FoundKey[] = [];
  for (const handle of handles.subarray(0, Number(count[0]))) {
    const id = still(new Uint8Array(idBytesMax));
    const asked = words(attribute.id, address(id), BigInt(idBytesMax));
    await ask('C_GetAttributeValue', [session, handle, asked, 1n]);
    keys.push({ handle, id: id.slice(0, Number(asked[2])) });
  }
  return keys;
}

function build(native: Native): Cryptoki {
  const { ask } = native;

  async function slots(): Promise<readonly bigint[]> {
    const count = words(BigInt(objectsMax));
    const found = words(...Array<bigint>(objectsMax).fill(0n));
    await ask('C_GetSlotList', [1, found, count]);
    return [...found.subarray(0, Number(count[0]))];
  }

  async function tokenInfo(slot: bigint): Promise<Uint8Array<ArrayBuffer>> {
    const info = still(new Uint8Array(tokenInfoBytes));
    await ask('C_GetTokenInfo', [slot, info]);
    return info;
  }

  return {
    async initialize() {
      await ask('C_Initialize', [words(0n, 0n, 0n, 0n, osLocking, 0n)], [codes.alreadyInitialized]);
    },
    finalize: () => ask('C_Finalize', [null]),
    async findSlot(label) {
      for (const slot of await slots()) {
        const info = await tokenInfo(slot);
        const text = decodeUtf8(info.subarray(labelAt, labelBytes)).trimEnd();
        if (text === label) return slot;
      }
      return undefined;
    },
    tokenFlags: async (slot) => new DataView((await tokenInfo(slot)).buffer).getBigUint64(flagsAt, true),
    async openSession(slot) {
      const session = words(0n);
      await ask('C_OpenSession', [slot, BigInt(serialSession), null, null, session]);
      return session[0] ?? 0n;
    },
    closeSession: (session) => ask('C_CloseSession', [session]),
    async isLoggedIn(session) {
      const info = words(0n, 0n, 0n, 0n);
      await ask('C_GetSessionInfo', [session, info]);
      return info[1] === loggedIn;
    },
    login: (session, pin) =>
      ask('C_Login', [session, BigInt(normalUser), still(pin), BigInt(pin.length)], [codes.alreadyLoggedIn]),
    findKeys: (session, label) => findKeys(native, session, label),
    encrypt: (session, sealing, plain) =>
      withGcm(native, 'Encrypt', session, { sealing, bytes: plain, outMax: plain.length + 16 }),
    decrypt: (session, sealing, sealed) =>
      withGcm(native, 'Decrypt', session, { sealing, bytes: sealed, outMax: sealed.length }),
  };
}
