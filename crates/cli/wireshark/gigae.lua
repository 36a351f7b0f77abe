-- The GigaE protocol for Wireshark and tshark, as PROTOCOL.md has it. The numbers in brackets are its rules.
--
--   tshark -X lua_script:gigae.lua -r FILE        or in ~/.local/lib/wireshark/plugins
--
-- EtherType and UDP port are preferences: -o gigae.ethertype:34997, -o gigae.udp_port:4711. Wireshark 4.0 and later.

local gigae = Proto("gigae", "GigaE")

local VERSION = 3
local HEADER_LEN = 32
local LONGEST_CRC = 128

-- Flags of a header (1).
local ASK, HEADER_ONLY, ANSWER, STOPPED = 1, 2, 4, 8

local KINDS = {
    [1] = "Data", [2] = "Ack", [3] = "Hello", [4] = "HelloAck", [5] = "Reset", [6] = "Batch",
    [7] = "Op", [8] = "Who", [9] = "Here", [10] = "Probe", [11] = "Echo", [12] = "Confirm", [13] = "Part",
}

-- Operations (9.1): name, and fields with their lengths in the order in which they come.
local CODES = {
    [1] = { "Eager", { "tag", 8 } },
    [2] = { "First", { "tag", 8 }, { "total", 4 } },
    [3] = { "More" },
    [4] = { "Offer", { "tag", 8 }, { "total", 4 } },
    [5] = { "Pull", { "offer", 4 }, { "len", 4 } },
    [6] = { "Read", { "key", 8 }, { "offset", 8 }, { "len", 4 } },
    [7] = { "Reply", { "at", 4 } },
    [8] = { "Write", { "key", 8 }, { "offset", 8 }, { "total", 4 }, { "at", 4 } },
    [9] = { "Write with notice", { "key", 8 }, { "offset", 8 }, { "total", 4 }, { "at", 4 }, { "notice", 8 } },
    [10] = { "Atomic", { "key", 8 }, { "offset", 8 }, { "action", 1 }, { "number", 1 }, { "count", 1 }, { "fetch", 1 } },
    [11] = { "Done" },
    [12] = { "Limit", { "until", 4 }, { "entries", 4 } },
    [13] = { "OfferAt", { "tag", 8 }, { "total", 4 }, { "address", 8 } },
    [14] = { "Taken", { "offer", 4 }, { "len", 4 } },
}
local DONE = 11
-- The second byte of Eager, First, Offer and OfferAt: matched with untagged receives; a word follows the tag.
local UNTAGGED, WITH_WORD = 1, 2
local WORD = { "word", 8 }

local STATUS = { [0] = "Ok", [1] = "Key", [2] = "Bounds", [3] = "Rights", [4] = "Busy" }

-- What became of a frame's checksum.
local GOOD, BAD, UNVERIFIED = 1, 0, 2
local CHECKED = { [GOOD] = "Good", [BAD] = "Bad", [UNVERIFIED] = "Unverified" }

local codes = {}
for code, operation in pairs(CODES) do
    codes[code] = operation[1]
end

local f = {
    checksum = ProtoField.uint32("gigae.checksum", "Checksum", base.HEX),
    checksum_status = ProtoField.uint8("gigae.checksum.status", "Checksum status", base.DEC, CHECKED),
    version = ProtoField.uint8("gigae.version", "Version", base.DEC, nil, 0xf0),
    kind = ProtoField.uint8("gigae.kind", "Kind", base.DEC, KINDS, 0x0f),
    channel = ProtoField.uint8("gigae.channel", "Channel"),
    length = ProtoField.uint16("gigae.length", "Payload length"),
    src_port = ProtoField.uint16("gigae.src_port", "Source port id"),
    dst_port = ProtoField.uint16("gigae.dst_port", "Destination port id"),
    src_epoch = ProtoField.uint32("gigae.src_epoch", "Source epoch", base.HEX),
    dst_epoch = ProtoField.uint32("gigae.dst_epoch", "Destination epoch", base.HEX),
    seq = ProtoField.uint32("gigae.seq", "Number"),
    ack = ProtoField.uint32("gigae.ack", "All before have arrived"),
    credit = ProtoField.uint16("gigae.credit", "Credit in frames"),
    flags = ProtoField.uint16("gigae.flags", "Flags", base.HEX),
    ask = ProtoField.bool("gigae.flags.ask", "Ask", 16, nil, ASK),
    header_only = ProtoField.bool("gigae.flags.header_only", "Checksum of the header only", 16, nil, HEADER_ONLY),
    answer = ProtoField.bool("gigae.flags.answer", "Answer", 16, nil, ANSWER),
    stopped = ProtoField.bool("gigae.flags.stopped", "Stopped", 16, nil, STOPPED),
    payload = ProtoField.bytes("gigae.payload", "Payload"),
    message = ProtoField.bytes("gigae.message", "Message"),
    message_len = ProtoField.uint16("gigae.message.length", "Message length"),
    latest = ProtoField.uint32("gigae.report.latest", "Led to the report by"),
    bitmap = ProtoField.bytes("gigae.report.bitmap", "Arrived beyond"),
    arrived = ProtoField.uint32("gigae.report.arrived", "Arrived"),
    pad = ProtoField.bytes("gigae.padding", "Padding"),
    max_payload = ProtoField.uint16("gigae.max_payload", "Longest message"),
    reorder_window = ProtoField.uint16("gigae.hello.reorder_window", "Reorder window"),
    max_operations = ProtoField.uint16("gigae.hello.max_operations", "Longest payload of operations"),
    token = ProtoField.uint64("gigae.hello.token", "Token", base.HEX),
    echo = ProtoField.uint64("gigae.hello.echo", "Token of the other end", base.HEX),
    paths = ProtoField.uint8("gigae.hello.links", "Links"),
    path = ProtoField.ether("gigae.hello.link", "Link"),
    socket_port = ProtoField.uint16("gigae.hello.socket.port", "Port of the socket for bulk data"),
    socket_ip = ProtoField.ipv6("gigae.hello.socket.ip", "IP address of the socket for bulk data"),
    more = ProtoField.bytes("gigae.more", "More, ignored"),
    mtu = ProtoField.uint16("gigae.here.mtu", "MTU"),
    ip = ProtoField.ipv6("gigae.here.ip", "IP address"),
    channels = ProtoField.bytes("gigae.here.channels", "Channels"),
    open = ProtoField.uint8("gigae.here.channel", "Open channel"),
    name_len = ProtoField.uint8("gigae.here.name_len", "Name length"),
    name = ProtoField.string("gigae.here.name", "Name"),
    round = ProtoField.uint16("gigae.probe.round", "Round"),
    probed = ProtoField.uint16("gigae.probe.length", "Probed payload length"),
    part_frame = ProtoField.uint32("gigae.part.frame", "Frame"),
    part_unit = ProtoField.uint16("gigae.part.unit", "Bytes in each part but the last"),
    part_index = ProtoField.uint8("gigae.part.index", "Part"),
    part_count = ProtoField.uint8("gigae.part.count", "Parts"),
    part = ProtoField.bytes("gigae.part", "Bytes of the frame"),
    op = ProtoField.uint8("gigae.op", "Operation", base.DEC, codes),
    op_status = ProtoField.uint8("gigae.op.status", "Status", base.DEC, STATUS),
    op_untagged = ProtoField.bool("gigae.op.untagged", "Untagged", 8, nil, UNTAGGED),
    op_with_word = ProtoField.bool("gigae.op.with_word", "Bears a word", 8, nil, WITH_WORD),
    op_len = ProtoField.uint16("gigae.op.data_len", "Bytes of data"),
    op_id = ProtoField.uint32("gigae.op.id", "Id"),
    op_data = ProtoField.bytes("gigae.op.data", "Data"),
}
-- Fields of operations: gigae.op.tag and so on.
local of_op = { word = ProtoField.uint64("gigae.op.word", "Word for the receiver", base.HEX) }
for _, operation in pairs(CODES) do
    for i = 2, #operation do
        local name, len = operation[i][1], operation[i][2]
        if not of_op[name] then
            local make = len == 8 and ProtoField.uint64 or ProtoField.uint32
            local hex = name == "tag" or name == "key" or name == "notice"
            of_op[name] = make("gigae.op." .. name, name:sub(1, 1):upper() .. name:sub(2), hex and base.HEX or base.DEC)
        end
    end
end
local fields = {}
for _, field in pairs(f) do fields[#fields + 1] = field end
for _, field in pairs(of_op) do fields[#fields + 1] = field end
gigae.fields = fields

local e = {
    checksum = ProtoExpert.new("gigae.checksum.bad", "Bad checksum: receivers drop this frame", expert.group.CHECKSUM, expert.severity.ERROR),
    version = ProtoExpert.new("gigae.version.other", "Another version of the protocol", expert.group.UNDECODED, expert.severity.WARN),
    kind = ProtoExpert.new("gigae.kind.unknown", "Unknown kind of frame", expert.group.UNDECODED, expert.severity.WARN),
    short = ProtoExpert.new("gigae.short", "Shorter than it says", expert.group.MALFORMED, expert.severity.ERROR),
    malformed = ProtoExpert.new("gigae.malformed", "Malformed: receivers drop this frame", expert.group.MALFORMED, expert.severity.ERROR),
    stop = ProtoExpert.new("gigae.stop", "STOP: no room for more frames", expert.group.SEQUENCE, expert.severity.NOTE),
}
gigae.experts = { e.checksum, e.version, e.kind, e.short, e.malformed, e.stop }

gigae.prefs.ethertype = Pref.uint("EtherType", 0x88b5, "EtherType of GigaE frames (decimal)")
gigae.prefs.udp_port = Pref.uint("UDP port", 0, "UDP port of GigaE frames in that envelope; 0: none")
gigae.prefs.checksum = Pref.bool("Verify checksums", true, "Compute the CRC32C of every frame that has one: payloads of up to 128 bytes")

-- Wireshark's Lua has one of these, by version; results may be signed.
local bits = bit32 or bit
local band, bxor, rshift = bits.band, bits.bxor, bits.rshift

-- CRC32C, reflected (RFC 3720, 12.1).
local TABLE = {}
for n = 0, 255 do
    local crc = n
    for _ = 1, 8 do
        local odd = band(crc, 1) == 1
        crc = rshift(crc, 1)
        if odd then crc = bxor(crc, 0x82f63b78) end
    end
    TABLE[n] = crc
end

local function crc32c(bytes)
    local crc = 0xffffffff
    for i = 1, #bytes do
        crc = bxor(TABLE[band(bxor(crc, bytes:byte(i)), 0xff)], rshift(crc, 8))
    end
    return bxor(crc, 0xffffffff) % 0x100000000
end

-- Whether a flag is set.
local function has(flags, flag)
    return band(flags, flag) ~= 0
end

-- Each of these shows a payload in the tree and returns what the info column says of it, or nothing. Those that
-- find it malformed say so in the tree.
local show = {}

-- Not all of the frame was captured: what is missing is not wrong.
local cut = false

local function malformed(tree, text)
    if not cut then tree:add_proto_expert_info(e.malformed, text) end
end

show[1] = function(payload, tree)
    if payload:len() > 0 then tree:add(f.message, payload()) end
end

show[2] = function(payload, tree, header)
    local len = payload:len()
    if len == 0 then return end
    if header.length > 132 then
        tree:add(f.pad, payload())
        return "padded"
    end
    if len < 4 then return malformed(tree, "Malformed: a report has four bytes at least") end
    tree:add(f.latest, payload(0, 4))
    if len == 4 then return "report" end
    local map = tree:add(f.bitmap, payload(4))
    local count = 0
    for i = 0, (len - 4) * 8 - 1 do
        local byte = payload(4 + math.floor(i / 8), 1)
        if has(byte:uint(), 2 ^ (i % 8)) then
            map:add(f.arrived, byte, (header.ack + 1 + i) % 0x100000000)
            count = count + 1
        end
    end
    return "report of " .. count .. " beyond a gap"
end

show[3] = function(payload, tree)
    local len = payload:len()
    if len < 22 then return malformed(tree, "Malformed: a handshake has 22 bytes at least") end
    tree:add(f.max_payload, payload(0, 2))
    tree:add(f.reorder_window, payload(2, 2))
    tree:add(f.max_operations, payload(4, 2))
    tree:add(f.token, payload(6, 8))
    tree:add(f.echo, payload(14, 8))
    local text = "max " .. payload(0, 2):uint()
    if len == 22 then return text end
    local count = payload(22, 1):uint()
    if count == 0 then
        tree:add(f.pad, payload(22))
        return text
    end
    if count == 1 then
        if len < 41 then return malformed(tree, "Malformed: fewer bytes of a socket's address than it has") end
        tree:add(f.socket_port, payload(23, 2))
        tree:add(f.socket_ip, payload(25, 16))
        if len > 41 then tree:add(f.pad, payload(41)) end
        return text .. ", a socket"
    end
    tree:add(f.paths, payload(22, 1))
    if len < 23 + 6 * count then return malformed(tree, "Malformed: fewer addresses of links than it says") end
    for i = 0, count - 1 do
        tree:add(f.path, payload(23 + 6 * i, 6))
    end
    if len > 23 + 6 * count then tree:add(f.more, payload(23 + 6 * count)) end
    return text .. ", " .. count .. " links"
end
show[4] = show[3]
show[12] = show[3]

show[5] = function(payload, tree)
    if payload:len() > 0 then tree:add(f.more, payload()) end
end

show[6] = function(payload, tree)
    local at, count, len = 0, 0, payload:len()
    while at < len do
        if len - at < 2 then break end
        local size = payload(at, 2):uint()
        if len - at - 2 < size then break end
        local message = tree:add(gigae, payload(at, 2 + size), "Message of " .. size .. " bytes")
        message:add(f.message_len, payload(at, 2))
        if size > 0 then message:add(f.message, payload(at + 2, size)) end
        at = at + 2 + size
        count = count + 1
    end
    if at < len or count == 0 then malformed(tree, "Malformed: not exactly filled by its messages") end
    return count .. " messages"
end

-- The fields of an operation, and the bytes of its header; nothing if there is no such operation.
local function layout(code, flags)
    local operation = CODES[code]
    if not operation then return end
    local fields, size = {}, 8
    for i = 2, #operation do
        fields[#fields + 1] = operation[i]
        if operation[i][1] == "tag" and has(flags, WITH_WORD) then fields[#fields + 1] = WORD end
    end
    for _, field in ipairs(fields) do size = size + field[2] end
    return operation[1], fields, size
end

-- One operation; returns its name, and the bytes that it takes, or nothing if they are not all there.
local function show_op(payload, tree)
    local len = payload:len()
    if len < 8 then return end
    local code, flags = payload(0, 1):uint(), payload(1, 1):uint()
    local name, fields, size = layout(code, flags)
    if not name or len < size then return end
    local data = payload(2, 2):uint()
    local whole = math.min(len, size + data)
    local item = tree:add(gigae, payload(0, whole), name .. ", " .. data .. " bytes of data")
    item:add(f.op, payload(0, 1))
    if code == DONE then
        item:add(f.op_status, payload(1, 1))
        name = name .. " (" .. (STATUS[flags] or flags) .. ")"
        if not STATUS[flags] then malformed(item, "Malformed: unknown status") end
    elseif fields[1] and fields[1][1] == "tag" then
        item:add(f.op_untagged, payload(1, 1))
        item:add(f.op_with_word, payload(1, 1))
        if flags > UNTAGGED + WITH_WORD then malformed(item, "Malformed: unknown flags") end
    end
    item:add(f.op_len, payload(2, 2))
    item:add(f.op_id, payload(4, 4))
    local at = 8
    for _, field in ipairs(fields) do
        item:add(of_op[field[1]], payload(at, field[2]))
        at = at + field[2]
    end
    if whole > size then item:add(f.op_data, payload(size, whole - size)) end
    if len < size + data then return end
    return name, whole
end

show[7] = function(payload, tree)
    local at, names, len = 0, {}, payload:len()
    while at < len do
        local name, size = show_op(payload(at):tvb(), tree)
        if not name then
            malformed(tree, "Malformed: an unknown operation, or one that is not whole")
            break
        end
        names[#names + 1] = name
        at = at + size
    end
    if #names > 4 then return #names .. " operations: " .. table.concat(names, ", ", 1, 3) .. " ..." end
    return table.concat(names, ", ")
end

show[8] = show[5]

show[9] = function(payload, tree)
    local len = payload:len()
    if len < 53 then return malformed(tree, "Malformed: shorter than its fixed part") end
    tree:add(f.max_payload, payload(0, 2))
    tree:add(f.mtu, payload(2, 2))
    tree:add(f.ip, payload(4, 16))
    local map = tree:add(f.channels, payload(20, 32))
    for i = 0, 255 do
        local byte = payload(20 + math.floor(i / 8), 1)
        if has(byte:uint(), 2 ^ (i % 8)) then map:add(f.open, byte, i) end
    end
    tree:add(f.name_len, payload(52, 1))
    local size = payload(52, 1):uint()
    if size < 1 or size > 63 or len < 53 + size then return malformed(tree, "Malformed: a name of 1 to 63 bytes is missing") end
    tree:add(f.name, payload(53, size))
    if len > 53 + size then tree:add(f.more, payload(53 + size)) end
    return payload(53, size):string()
end

show[10] = function(payload, tree)
    if payload:len() < 4 then return malformed(tree, "Malformed: four bytes at least") end
    tree:add(f.round, payload(0, 2))
    tree:add(f.probed, payload(2, 2))
    if payload:len() > 4 then tree:add(f.pad, payload(4)) end
    return "round " .. payload(0, 2):uint() .. ", " .. payload(2, 2):uint() .. " bytes"
end
show[11] = show[10]

show[13] = function(payload, tree)
    if payload:len() < 9 then return malformed(tree, "Malformed: nine bytes at least") end
    tree:add(f.part_frame, payload(0, 4))
    tree:add(f.part_unit, payload(4, 2))
    tree:add(f.part_index, payload(6, 1))
    tree:add(f.part_count, payload(7, 1))
    tree:add(f.part, payload(8))
    return "part " .. payload(6, 1):uint() .. " of " .. payload(7, 1):uint()
end

-- Verifies the checksum over what it covers (1), and shows it: unverified where not all of that was captured, and if
-- a long payload is covered, whose checksum is not a CRC32C.
local function check(buffer, tree, header)
    local item = tree:add(f.checksum, buffer(0, 4))
    local covered = has(header.flags, HEADER_ONLY) and HEADER_LEN or HEADER_LEN + header.length
    local status = UNVERIFIED
    local long = covered > HEADER_LEN + LONGEST_CRC
    if gigae.prefs.checksum and not long and covered <= buffer:len() then
        status = crc32c(buffer:raw(4, covered - 4)) == buffer(0, 4):uint() and GOOD or BAD
    end
    item:append_text(" (" .. CHECKED[status]:lower() .. (long and ", XXH3)" or covered == HEADER_LEN and header.length > 0 and ", of the header only)" or ")"))
    item:add(f.checksum_status, buffer(0, 4), status):set_generated()
    if status == BAD then item:add_proto_expert_info(e.checksum) end
    return status
end

local function show_flags(buffer, tree)
    local item = tree:add(f.flags, buffer(30, 2))
    item:add(f.ask, buffer(30, 2))
    item:add(f.header_only, buffer(30, 2))
    item:add(f.answer, buffer(30, 2))
    item:add(f.stopped, buffer(30, 2))
end

-- A payload of no bytes.
local NOTHING = { len = function() return 0 end }

local function info_of(header, text)
    local kind = KINDS[header.kind] or ("kind " .. header.kind)
    local parts = { kind .. " " .. header.src_port .. " > " .. header.dst_port .. " ch " .. header.channel }
    local of_session = header.kind ~= 8 and header.kind ~= 9
    if of_session then
        parts[#parts + 1] = "seq=" .. header.seq .. " ack=" .. header.ack .. " credit=" .. header.credit
    end
    parts[#parts + 1] = "len=" .. header.length
    if has(header.flags, ASK) then parts[#parts + 1] = "ASK" end
    if has(header.flags, ANSWER) then parts[#parts + 1] = "ANSWER" end
    if has(header.flags, STOPPED) then parts[#parts + 1] = "STOPPED" end
    if text and text ~= "" then parts[#parts + 1] = "[" .. text .. "]" end
    return table.concat(parts, " ")
end

function gigae.dissector(buffer, pinfo, root)
    pinfo.cols.protocol = "GigaE"
    local there = buffer:len()
    if there < HEADER_LEN then
        local tree = root:add(gigae, buffer())
        pinfo.cols.info = "short frame"
        -- Captured in part only, or really short.
        if buffer:reported_len() < HEADER_LEN then tree:add_proto_expert_info(e.short) end
        return there
    end
    local version = math.floor(buffer(4, 1):uint() / 16)
    local header = {
        kind = buffer(4, 1):uint() % 16,
        channel = buffer(5, 1):uint(),
        length = buffer(6, 2):uint(),
        src_port = buffer(8, 2):uint(),
        dst_port = buffer(10, 2):uint(),
        seq = buffer(20, 4):uint(),
        ack = buffer(24, 4):uint(),
        credit = buffer(28, 2):uint(),
        flags = buffer(30, 2):uint(),
    }
    local whole = math.min(there, HEADER_LEN + header.length)
    if version ~= VERSION then
        -- All else may differ (1.2).
        local tree = root:add(gigae, buffer())
        tree:add(f.version, buffer(4, 1))
        tree:add(f.kind, buffer(4, 1))
        tree:add_proto_expert_info(e.version)
        pinfo.cols.info = "version " .. version .. " of the protocol"
        return there
    end
    local tree = root:add(gigae, buffer(0, whole), "GigaE " .. (KINDS[header.kind] or "of unknown kind"))
    local status = check(buffer, tree, header)
    tree:add(f.version, buffer(4, 1))
    tree:add(f.kind, buffer(4, 1))
    tree:add(f.channel, buffer(5, 1))
    tree:add(f.length, buffer(6, 2))
    tree:add(f.src_port, buffer(8, 2))
    tree:add(f.dst_port, buffer(10, 2))
    tree:add(f.src_epoch, buffer(12, 4))
    tree:add(f.dst_epoch, buffer(16, 4))
    tree:add(f.seq, buffer(20, 4))
    tree:add(f.ack, buffer(24, 4))
    local credit = tree:add(f.credit, buffer(28, 2))
    if header.kind == 2 and header.credit == 0 then credit:add_proto_expert_info(e.stop) end
    show_flags(buffer, tree)
    if buffer:reported_len() < HEADER_LEN + header.length then tree:add_proto_expert_info(e.short) end
    cut = whole < HEADER_LEN + header.length
    local text
    if not KINDS[header.kind] then
        tree:add_proto_expert_info(e.kind)
        if whole > HEADER_LEN then tree:add(f.payload, buffer(HEADER_LEN, whole - HEADER_LEN)) end
    elseif status ~= BAD then
        local payload = whole > HEADER_LEN and buffer(HEADER_LEN, whole - HEADER_LEN):tvb() or NOTHING
        text = show[header.kind](payload, tree, header)
    elseif whole > HEADER_LEN then
        tree:add(f.payload, buffer(HEADER_LEN, whole - HEADER_LEN))
    end
    pinfo.cols.info = info_of(header, status == BAD and "bad checksum" or text)
    return there
end

local ethertypes, udp_ports = DissectorTable.get("ethertype"), DissectorTable.get("udp.port")
local registered = { ethertype = 0, udp_port = 0 }

local function register()
    if registered.ethertype > 0 then ethertypes:remove(registered.ethertype, gigae) end
    if registered.udp_port > 0 then udp_ports:remove(registered.udp_port, gigae) end
    registered = { ethertype = gigae.prefs.ethertype, udp_port = gigae.prefs.udp_port }
    if registered.ethertype > 0 then ethertypes:add(registered.ethertype, gigae) end
    if registered.udp_port > 0 then udp_ports:add(registered.udp_port, gigae) end
end

gigae.prefs_changed = register
register()

-- Frames of bulk data are in UDP, too, with ports that the kernel has chosen.
gigae:register_heuristic("udp", function(buffer, pinfo, root)
    if buffer:len() < HEADER_LEN then return false end
    local kind = buffer(4, 1):uint()
    local length = buffer(6, 2):uint()
    if math.floor(kind / 16) ~= VERSION or not KINDS[kind % 16] then return false end
    if buffer:reported_len() < HEADER_LEN + length then return false end
    gigae.dissector(buffer, pinfo, root)
    return true
end)
